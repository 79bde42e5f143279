"""Webhooks of the Kubernetes API server for IAM principals: their tokens, and what their access entries allow."""
