"""Measure which batch size, queue delay and number of instances serve a model best within its SLO."""
