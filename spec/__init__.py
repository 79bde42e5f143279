"""Describe a stack: its settings and their rules, the catalogues behind them, and what follows from both by arithmetic.

Imports neither Pulumi nor a cloud SDK, so that every other package can use it.
"""
