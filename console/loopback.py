"""Keeps what is on this machine out of reach of a proxy, for this process and for those that it starts.

Go's programs never ask a proxy for a loopback address. Python's HTTP clients, boto3 and gRPC do, unless NO_PROXY says
otherwise: on a machine that has a proxy for the world outside, every request to a server of the same machine would be lost.
"""

from __future__ import annotations

from collections.abc import Mapping

NO_PROXY = ("NO_PROXY", "no_proxy", "no_grpc_proxy")
"""The variables that name who is reached without a proxy; gRPC reads the last one, and the others where it is not set."""
HOSTS = ("localhost", "127.0.0.1", "127.0.0.0/8", "::1")
"""The address too, not only its network: urllib, httpx and boto3 understand no networks."""


def direct(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables to set so that loopback is reached without a proxy: whatever `environ` excepts, and loopback.

    Proxies themselves stay as they are: downloads need them.
    """
    given = [host.strip() for name in NO_PROXY for host in environ.get(name, "").split(",")]
    value = ",".join(dict.fromkeys([*filter(None, given), *HOSTS]))
    return dict.fromkeys(NO_PROXY, value)
