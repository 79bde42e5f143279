"""Ask servers over HTTP as the environment says: through its proxy, where it names one (HTTPS_PROXY, NO_PROXY)."""

from __future__ import annotations

from typing import Any

import httpx

from spec.failure import NOT_TRIED, Failure


class ProxyUnusable(Failure):
    """The environment names a proxy that cannot be used; the text says what would be right."""

    exit_code = NOT_TRIED


def client(**arguments: Any) -> httpx.Client:
    """Return `httpx.Client(**arguments)`, to be closed by the caller. Raises ProxyUnusable."""
    try:
        return httpx.Client(**arguments)
    except (ImportError, ValueError, httpx.InvalidURL) as error:  # of a kind that httpx does not speak, or no address
        raise ProxyUnusable(
            f"the proxy that HTTPS_PROXY, HTTP_PROXY or ALL_PROXY names cannot be used ({str(error).partition('.')[0]}): "
            "give one like http://proxy.example.com:3128, or unset it"
        ) from None
