"""What runs in the cluster for the workloads' sake."""
