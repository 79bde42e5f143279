"""The twin's Pulumi plugins: a language host and the aws, eks and kubernetes providers, as gRPC servers in Python.

The engine is the real one and has no knowledge of the twin. It finds these plugins under the names of the official ones
(``launchers``) and uses its ordinary protocol with them.
"""
