"""Rules for models, one module per subject.

Each rule yields sentences `<field>: <problem>; <remedy>`. Mistakes marked "fatal" below were seen to stop a real server
(docs/facts/triton-configuration.md#text-of-configpbtxt). With others a model loads, but they do harm in production.
"""
