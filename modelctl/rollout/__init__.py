"""Change models in place on pods in explicit mode, for models that are too expensive to restart.

`plan` reports the changes, `rollout` makes them phase by phase, and `journal` is the state from which a killed rollout
resumes.
"""
