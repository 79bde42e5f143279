"""Webhooks of the Kubernetes API server for IAM principals: they check tokens and evaluate access entries."""
