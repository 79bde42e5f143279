"""Hold what all commands share: the terminal, the STACK argument, and answers that are not from AWS."""
