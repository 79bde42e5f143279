"""Reaches a private API server from outside of its VPC: SSM forwards a port through a node (docs/private-api.md)."""
