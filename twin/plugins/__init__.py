"""The twin's Pulumi plugins: a language host and the aws, eks and kubernetes providers, as gRPC servers in Python.

The engine is the real one and knows nothing of the twin: it finds these under the names of the official plugins
(``launchers``) and speaks its ordinary protocol to them.
"""
