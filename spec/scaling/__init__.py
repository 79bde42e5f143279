"""Derive the autoscaling of a fleet from its settings: the scaling signals and the pace of scaling."""
