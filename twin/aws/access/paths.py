"""Names that the API server and the webhooks share, without moto, which takes long to import."""

AUTHENTICATION = "/twin/authentication"
AUTHORIZATION = "/twin/authorization"
ENTRY = "twin.triton-eks/access-entry"
"""A key of the user's `extra`: the cluster, and the principal of the access entry. EKS has no such key."""
