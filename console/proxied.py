"""Send HTTP requests through the proxy in the environment, if it names one (HTTPS_PROXY, NO_PROXY)."""

from __future__ import annotations

from typing import Any

import httpx

from spec.failure import NOT_TRIED, Failure


class ProxyUnusable(Failure):
    """The environment names a proxy that cannot be used; the text gives the remedy."""

    exit_code = NOT_TRIED


def client(**arguments: Any) -> httpx.Client:
    """Return `httpx.Client(**arguments)`, which the caller closes. Raises ProxyUnusable."""
    try:
        return httpx.Client(**arguments)
    except (ImportError, ValueError, httpx.InvalidURL) as error:  # a kind that httpx does not support, or no address
        raise ProxyUnusable(
            f"the proxy that HTTPS_PROXY, HTTP_PROXY or ALL_PROXY names cannot be used ({str(error).partition('.')[0]}): "
            "give one like http://proxy.example.com:3128, or unset it"
        ) from None
