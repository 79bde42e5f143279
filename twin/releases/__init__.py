"""Helm releases: how our own charts are rendered, and how what stands for the charts of others is installed and run."""
