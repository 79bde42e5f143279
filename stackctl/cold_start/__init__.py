"""Report the stages of a new pod's start, estimated and measured.

Estimates come from the stack file, measurements from running pods.
"""
