"""Releases of models: validate a model repository, upload it as an immutable prefix, verify it, pin it in a
stack.

A release is the prefix `releases/<id>/` of the models bucket. Its id is derived from its content, its
manifest is written last, and nothing under it is ever overwritten afterwards (research triton.md 7.5).
"""
