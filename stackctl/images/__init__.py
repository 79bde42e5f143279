"""Looks container images up in registries by the registry's own API, and copies them from one to another."""
