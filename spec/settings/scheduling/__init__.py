"""Requests of the pods of a stack, and the room that its nodes have for them."""
