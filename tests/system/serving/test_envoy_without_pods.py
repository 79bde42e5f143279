"""Ask a real Envoy what it counts of requests without a pod: Envoy Gateway makes such a route answer 503 by itself."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from spec.prometheus.gateway import without_a_pod
from twin.charts.envoy_gateway.pods import locate
from twin.host import ports, processes

ADDRESS = "127.77.9.1"
_TYPES = "type.googleapis.com/envoy"


def listener(port: int) -> dict[str, Any]:
    """One as Envoy Gateway makes it for the port 8000, with a route without pods."""
    router = {"@type": f"{_TYPES}.extensions.filters.http.router.v3.Router"}
    manager = {
        "@type": f"{_TYPES}.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "http-8000",
        "http_filters": [{"name": "envoy.filters.http.router", "typed_config": router}],
        "route_config": {
            "virtual_hosts": [
                {
                    "name": "all",
                    "domains": ["*"],
                    "routes": [{"match": {"path": "/v2/models/m/infer"}, "direct_response": {"status": 503}}],
                }
            ]
        },
    }
    filters = [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]
    return {"address": _socket(port), "filter_chains": [{"filters": filters}]}


@pytest.fixture
def envoy(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The addresses of its listener and of its statistics."""
    port, admin = (
        next(free for free in range(first, first + 100) if ports.is_free(ADDRESS, free)) for first in (18000, 19000)
    )
    config = {"admin": {"address": _socket(admin)}, "static_resources": {"listeners": [listener(port)]}}
    command = [str(locate()), "--config-yaml", json.dumps(config), "--disable-hot-restart", "--concurrency", "1"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=tmp_path)
    try:
        statistics = f"http://{ADDRESS}:{admin}/stats/prometheus"
        processes.wait_until(lambda: _status(f"http://{ADDRESS}:{admin}/ready") == 200, "Envoy to be ready", 60, poll=0.1)
        yield f"http://{ADDRESS}:{port}", statistics
    finally:
        process.terminate()
        process.wait(30)


def _socket(port: int) -> dict[str, Any]:
    return {"socket_address": {"address": ADDRESS, "port_value": port}}


def _status(url: str) -> int:
    try:
        return httpx.get(url, trust_env=False).status_code
    except httpx.TransportError:
        return 0


def counted(statistics: str) -> float:
    """Return what the program's query sums of a scrape, each listener as it stands."""
    query = re.search(r'\((?P<name>envoy_\w+)\{.*envoy_http_conn_manager_prefix=~"(?P<prefix>[^"]+)"', without_a_pod())
    assert query is not None
    found = re.findall(
        rf'^{query["name"]}{{envoy_http_conn_manager_prefix="([^"]+)"}} (\S+)$',
        httpx.get(statistics, trust_env=False).text,
        re.MULTILINE,
    )
    assert found
    return sum(float(value) for prefix, value in found if re.fullmatch(query["prefix"], prefix))


def test_requests_without_a_pod_are_counted_and_those_without_a_route_are_not(envoy: tuple[str, str]) -> None:
    url, statistics = envoy
    assert counted(statistics) == 0, "there from the beginning, so that the first request is an increase"
    assert httpx.post(f"{url}/v2/models/m/infer", trust_env=False).status_code == 503
    grpc = httpx.post(f"{url}/v2/models/m/infer", headers={"content-type": "application/grpc"}, trust_env=False)
    assert (grpc.status_code, grpc.headers["grpc-status"]) == (200, "14")
    assert httpx.post(f"{url}/v2/models/other/infer", trust_env=False).status_code == 404
    assert counted(statistics) == 2
