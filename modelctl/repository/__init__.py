"""Read a model repository on disk: its models, their configs, and everything that is wrong with them."""
