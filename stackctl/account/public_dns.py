"""Query public DNS instead of this machine's resolver, which may answer from private zones."""

from __future__ import annotations

import httpx

from console.proxied import ProxyUnusable, client
from stackctl.account.read_only import one_line

RESOLVER = "https://dns.google/resolve"
"""Google's DNS over HTTPS, which works through proxies: https://developers.google.com/speed/public-dns/docs/doh/json."""
_SECONDS = 10
_NS = 2
_NO_ERROR, _NO_SUCH_NAME = 0, 3


class PublicDnsSilent(Exception):
    """Public DNS gave no valid answer. The text gives the reason."""


def name_servers(zone: str) -> frozenset[str]:
    """Return the name servers that a domain is delegated to, if any. Raises PublicDnsSilent."""
    try:
        with client(timeout=_SECONDS) as asked:
            answer = asked.get(RESOLVER, params={"name": zone, "type": "NS"}).raise_for_status().json()
        status, records = int(answer["Status"]), answer.get("Answer", [])
        found = [str(record["data"]) for record in records if record["type"] == _NS]
    except (httpx.HTTPError, ProxyUnusable) as error:
        raise PublicDnsSilent(one_line(str(error)) or type(error).__name__) from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise PublicDnsSilent(f"{RESOLVER} answered something else than DNS in JSON") from None
    if status not in (_NO_ERROR, _NO_SUCH_NAME):
        raise PublicDnsSilent(f"its answer about {zone} has the code {status}")
    return frozenset(name.rstrip(".").lower() for name in found)
