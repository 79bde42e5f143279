"""Find a stack's API server, and check whether this machine reaches it."""

from __future__ import annotations

import base64
import binascii
import ssl
from dataclasses import dataclass
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx

from spec.settings import Settings
from stackctl.account.read_only import Readers, one_line, or_none

_SECONDS = 5


@dataclass(frozen=True)
class ApiServer:
    """A cluster's API server: cluster name, address, and certificate authority as base64."""

    cluster: str
    endpoint: str
    authority: str

    @property
    def host(self) -> str:
        """Return the host name in its certificate and in DNS."""
        return urlsplit(self.endpoint).hostname or ""


def find(settings: Settings, readers: Readers) -> ApiServer | None:
    """Return the API server as EKS describes it; None before it exists. Raises ClientError, BotoCoreError."""
    name = settings.used_cluster
    answer = or_none(lambda: readers("eks").describe_cluster(name=name), "ResourceNotFoundException")
    cluster = answer["cluster"] if answer is not None else {}
    if "endpoint" not in cluster:  # also while EKS creates it
        return None
    return ApiServer(name, cluster["endpoint"], cluster["certificateAuthority"]["data"])


def silence(server: ApiServer) -> str | None:
    """Return the reason why this machine does not reach the API server, or None.

    Any response counts, also a refusal without login. The request uses HTTPS_PROXY if it is set, as kubectl does, for
    example for the tunnel.
    """
    try:
        context = ssl.create_default_context(cadata=base64.b64decode(server.authority, validate=True).decode())
    except (ssl.SSLError, binascii.Error, UnicodeDecodeError):
        return "what EKS says of its certificate cannot be right"
    # httpx would look up the proxy itself, and raise an error for a kind that it does not know, like socks5.
    proxy = None if proxy_bypass(server.host) else getproxies().get("https")
    try:
        httpx.get(
            f"{server.endpoint.rstrip('/')}/version",
            verify=context,
            timeout=_SECONDS,
            proxy=proxy if proxy and proxy.startswith("http") else None,
            trust_env=False,
        )
    except (httpx.TransportError, httpx.InvalidURL) as error:
        return one_line(str(error)) or type(error).__name__
    return None


def through_a_node(settings: Settings) -> str:
    """Return the advice to use the tunnel."""
    return f"go through a node: `python3 -m stackctl tunnel {settings.stack} -- COMMAND` (docs/private-api.md)"


def ways_in(settings: Settings) -> str:
    """Return the ways to reach an API server that does not answer."""
    if settings.cluster.existing is not None:
        way = "have this machine let in by whoever looks after the cluster"
    elif settings.cluster.endpoint == "public":
        way = "add the address of this machine to cluster.publicAccessCidrs"
    else:
        way = "come from a network or security group of cluster.apiAccess"
    return f"{way}, or {through_a_node(settings)}"
