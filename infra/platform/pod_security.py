"""What the API server lets into a namespace: Kubernetes' Pod Security Standards, as labels of the namespace."""

RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/warn": "restricted"}
"""Pods that need nothing of the node. A pod that asks for more is refused, and who made its Deployment is warned."""
