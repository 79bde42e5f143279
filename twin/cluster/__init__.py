"""The Kubernetes cluster: its control plane, nodes, names and addresses, and the client of its API."""
