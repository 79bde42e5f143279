"""The inference workload."""
