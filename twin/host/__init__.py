"""This machine: a twin's directory, its background processes and ports, and the programs that are built for it."""
