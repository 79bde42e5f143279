"""Releases of models: validate a model repository, make each stack's configs of what it wants, upload all as an
immutable prefix, verify it, pin it in a stack, roll it out, go back to the one before.

A release is the prefix `releases/<id>/` of the models bucket. Its id is derived from its content, its
manifest is written last, and nothing under it is ever overwritten afterwards: a server that loads while files change
may read half of them (docs/facts/triton-server.md#polling).
"""
