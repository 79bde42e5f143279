"""Helm releases: render our own charts, and install and run the substitutes of third-party charts."""
