"""The Kubernetes cluster: its control plane, its nodes, its names and addresses, and the client of its API."""
