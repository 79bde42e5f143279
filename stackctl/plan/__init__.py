"""Find the cheapest fleets that meet a stack's requirements for its models."""
