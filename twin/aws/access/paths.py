"""Names that the API server and the webhooks share. The module avoids moto, which is slow to import."""

AUTHENTICATION = "/twin/authentication"
AUTHORIZATION = "/twin/authorization"
ENTRY = "twin.triton-eks/access-entry"
"""Key of the user's `extra` with the cluster and the principal of the access entry. EKS has no such key."""
