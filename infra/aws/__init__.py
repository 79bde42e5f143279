"""Hold the components of AWS itself: network, cluster, nodes, storage, identity, queue, budget."""
