"""The resource requests of a stack's pods, and the room on its nodes."""
