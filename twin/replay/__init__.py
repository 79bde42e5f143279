"""Replay a trace of requests through a stack's own autoscaling settings, in virtual time.

The controllers are ports of the real ones, checked against recorded decisions (docs/replay.md). The servers are a model.
"""
