"""Hold what every handler is made of: its contract, the checks of inputs, clients, tags and policy documents."""
