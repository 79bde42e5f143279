"""Rules that a model must keep, one module per subject.

Each rule yields sentences `<field>: <what is wrong>; <what is right>`. Those marked "fatal" below were seen
to stop a real server (docs/facts/triton-configuration.md#text-of-configpbtxt); the others load, and do harm in production.
"""
