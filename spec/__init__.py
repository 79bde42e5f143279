"""A stack's settings and their rules, the catalogues behind them, and values computed from both.

Imports neither Pulumi nor a cloud SDK, so every other package can use it.
"""
