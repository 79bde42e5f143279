"""Runs the program in this process: a resource monitor applies registrations to moto and records them."""
