"""Restrict the twin's plugins to this machine, so that they cannot reach a real account or cluster by mistake."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from twin.plugins.errors import PluginError


def require_loopback(url: str, what: str) -> str:
    """Return ``url`` if its host is a loopback address. Raises PluginError, which says that ``what`` must be local."""
    host = urlsplit(url).hostname or ""
    try:
        local = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = False
    if not local:
        raise PluginError(
            f"{what} is {url!r}; the twin's plugins work on this machine only and want an address such as "
            "http://127.0.0.1:5000. Start the twin with `make up`, and take its environment from "
            "`python3 -m twin env`; for a real account use the official plugins instead"
        )
    return url
