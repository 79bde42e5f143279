"""Derive the autoscaling of a fleet from its settings: the signal that is scaled on, and how fast replicas change."""
