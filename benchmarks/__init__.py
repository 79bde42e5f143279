"""Measurements of what the project claims; each module is a program, and its results are in results/."""
