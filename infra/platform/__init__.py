"""Components in the cluster that the workloads rely on."""
