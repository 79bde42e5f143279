"""Release models: validate a repository, upload an immutable prefix with each stack's configs, verify, pin, roll out, roll
back.

A release is the prefix `releases/<id>/` of the models bucket. Its id is derived from its content, and its manifest is
written last. Afterwards its objects are never overwritten, because a server that loads while files change may read half of
them (docs/facts/triton-server.md#polling).
"""
