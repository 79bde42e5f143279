"""Clients of the platform, each a small program: `python -m examples.grpc_client --help`. See README.md."""
