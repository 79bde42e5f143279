"""Reach a private API server from outside its VPC (docs/private-api.md).

SSM forwards a port through a node.
"""
