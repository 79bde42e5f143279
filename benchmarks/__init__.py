"""Measurements of the project's claims. Each module is a program; its results are in results/."""
