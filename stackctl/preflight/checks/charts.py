"""Check that the repositories of the third-party charts answer; a preview loads charts from them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import httpx

from console.proxied import ProxyUnusable, client
from stackctl.account.read_only import one_line
from stackctl.preflight.checks.check import Finding, Subject, ok, warn

REMEDY = (
    "behind a proxy set HTTPS_PROXY, and NO_PROXY=localhost,127.0.0.1; without a way out give charts.registry a registry of "
    "yours: docs/chart-registry.md"
)
_SECONDS = 10
_LOGIN_WANTED = 401
_SERVED_BY = {"docker.io": "registry-1.docker.io"}


def check(subject: Subject) -> Iterator[Finding]:
    """Request each repository's index, and each registry's API version check, without login and without loading a chart."""
    registry = subject.settings.charts.registry if subject.settings.charts is not None else None
    names: dict[str, list[str]] = {}
    for chart in subject.settings.installed_charts:
        names.setdefault(address(registry or chart.repository), []).append(chart.name)
    with ThreadPoolExecutor(max_workers=len(names) or 1) as threads:
        reasons = dict(zip(names, threads.map(silence, names), strict=True))
    answering = [url for url, why in reasons.items() if why is None]
    if answering:
        yield ok(f"reached: {', '.join(sorted({urlsplit(url).netloc for url in answering}))}")
    for url, why in reasons.items():
        if why is not None:
            yield warn(
                f"{url} cannot be loaded ({why}); `pulumi preview` and `pulumi up` from here end "
                f"at {' and '.join(names[url])}",
                REMEDY,
            )


def address(source: str) -> str:
    """Return the URL that Helm requests from a chart repository or OCI registry before it loads a chart."""
    if not source.startswith("oci://"):
        return f"{source}/index.yaml"
    host = urlsplit(source).netloc
    return f"https://{_SERVED_BY.get(host, host)}/v2/"


def silence(url: str) -> str | None:
    """Return why the URL does not answer this machine correctly, or None."""
    try:
        with client(timeout=_SECONDS, follow_redirects=True) as asked, asked.stream("GET", url) as answer:
            if not (answer.is_success or (answer.status_code == _LOGIN_WANTED and url.endswith("/v2/"))):
                return f"{answer.status_code} {answer.reason_phrase}"
            beginning = next(answer.iter_bytes(), b"")
    except (httpx.HTTPError, httpx.InvalidURL, ProxyUnusable) as error:
        return one_line(str(error)) or type(error).__name__
    return "a page of HTML" if beginning.lstrip().startswith(b"<") else None
