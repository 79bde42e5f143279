"""Identities: service account tokens, and the AWS roles that they grant."""
