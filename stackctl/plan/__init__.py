"""The cheapest fleets that hold what a stack wants of its models."""
