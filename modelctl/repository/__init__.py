"""Read a model repository from disk: its models, their configs, and all mistakes in them."""
