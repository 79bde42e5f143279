"""Where the time of a new pod's start goes: as the stack file counts it, and as the pods that run took it."""
