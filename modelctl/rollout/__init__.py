"""Changing models in place on pods in explicit mode, for models too dear to restart.

`plan` says what would change, `rollout` does it phase by phase, `journal` is what a killed rollout goes on from.
"""
