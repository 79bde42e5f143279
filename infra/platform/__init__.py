"""Components in the cluster that the workloads depend on."""
