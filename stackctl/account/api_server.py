"""Find the API server of a stack's cluster, and tell whether it answers this machine."""

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
    """The API server of a cluster, by the cluster's name: its address, and its certificate authority as base64."""

    cluster: str
    endpoint: str
    authority: str

    @property
    def host(self) -> str:
        """Return the name that its certificate has, and that DNS knows."""
        return urlsplit(self.endpoint).hostname or ""


def find(settings: Settings, readers: Readers) -> ApiServer | None:
    """Return the API server as EKS describes it; None before there is one. Raises ClientError and BotoCoreError."""
    name = settings.used_cluster
    answer = or_none(lambda: readers("eks").describe_cluster(name=name), "ResourceNotFoundException")
    cluster = answer["cluster"] if answer is not None else {}
    if "endpoint" not in cluster:  # while EKS creates it, too
        return None
    return ApiServer(name, cluster["endpoint"], cluster["certificateAuthority"]["data"])


def silence(server: ApiServer) -> str | None:
    """Return why it does not answer this machine; None where it does, whatever it answers to who has not logged in.

    Asked as kubectl asks it: through HTTPS_PROXY where there is one, such as the tunnel's.
    """
    try:
        context = ssl.create_default_context(cadata=base64.b64decode(server.authority, validate=True).decode())
    except (ssl.SSLError, binascii.Error, UnicodeDecodeError):
        return "what EKS says of its certificate cannot be right"
    # Not as httpx would find it: a proxy of a kind that it does not know, like socks5, is an error there.
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
    """Return how the tunnel is gone through."""
    return f"go through a node: `python3 -m stackctl tunnel {settings.stack} -- COMMAND` (docs/private-api.md)"


def ways_in(settings: Settings) -> str:
    """Return what somebody can do whom it does not answer."""
    if settings.cluster.existing is not None:
        way = "have this machine let in by whoever looks after the cluster"
    elif settings.cluster.endpoint == "public":
        way = "add the address of this machine to cluster.publicAccessCidrs"
    else:
        way = "come from a network or security group of cluster.apiAccess"
    return f"{way}, or {through_a_node(settings)}"
