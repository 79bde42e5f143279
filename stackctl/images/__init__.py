"""Find container images through the registry API, and copy them between registries."""
