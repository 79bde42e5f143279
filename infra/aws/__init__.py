"""The AWS components: network, cluster, nodes, storage, identity, queue, budget."""
