"""Estimate the monthly cost of a stack at list prices, from its stack file.

The estimate is for decisions, not for invoices.
"""
