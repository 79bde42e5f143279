"""Exclude loopback addresses from proxies, for this process and its child processes.

Go programs never use a proxy for a loopback address. Python's HTTP clients, boto3 and gRPC do, unless NO_PROXY excludes it.
So on a machine with a proxy for external hosts, every request to a local server would be lost.
"""

from __future__ import annotations

from collections.abc import Mapping

NO_PROXY = ("NO_PROXY", "no_proxy", "no_grpc_proxy")
"""The variables that exclude hosts from proxies. gRPC reads the last one, or the others if it is not set."""
HOSTS = ("localhost", "127.0.0.1", "127.0.0.0/8", "::1")
"""urllib, httpx and boto3 do not support networks, so the address is listed too."""


def direct(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that exclude loopback addresses from proxies, in addition to the hosts that `environ` excludes.

    The proxies themselves stay unchanged, because downloads need them.
    """
    given = [host.strip() for name in NO_PROXY for host in environ.get(name, "").split(",")]
    value = ",".join(dict.fromkeys([*filter(None, given), *HOSTS]))
    return dict.fromkeys(NO_PROXY, value)
