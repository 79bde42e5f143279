"""Helm charts: how our own are rendered, and what stands for those of others."""
