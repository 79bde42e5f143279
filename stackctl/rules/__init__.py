"""Print the Prometheus rules of a stack."""
