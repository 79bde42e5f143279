"""The substitute for kube-prometheus-stack, with a small server for prometheus-operator and an in-memory cluster."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from twin.charts.kube_prometheus_stack import operator
from twin.charts.kube_prometheus_stack.operator import NAME, PrometheusStack
from twin.cluster import certificates
from twin.cluster.kube_api import Object
from twin.cluster.kube_errors import ApiError
from twin.host import processes, tools
from twin.host.home import TwinHome
from twin.releases.chart import ChartContext, ChartFailed, Release

OPERATOR = f"""#!{sys.executable}
import http.server, sys
address = next(word.partition("=")[2] for word in sys.argv if word.startswith("--web.listen-address="))
class Healthy(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/healthz" else 404)
        self.end_headers()
host, _, port = address.rpartition(":")
http.server.HTTPServer((host, int(port)), Healthy).serve_forever()
"""
AVAILABLE = {"type": "Available", "status": "True", "observedGeneration": 1}
SECONDS = 60.0


class Cluster:
    """Objects by path. `conditions` is the operator's status of every Prometheus."""

    def __init__(self, conditions: list[Object]) -> None:
        self.objects: dict[str, Object] = {}
        self.conditions = conditions
        self.refused: str | None = None

    async def apply(self, path: str, body: Object) -> Object:
        if body["kind"] == self.refused:
            raise ApiError(400, "BadRequest", 'strict decoding error: unknown field "spec.retentionn"')
        self.objects[path] = body
        return body

    async def find(self, path: str, **params: str) -> Object | None:
        folder, _, plural = path.rpartition("/")
        found = [item for own, item in self.objects.items() if own.startswith(folder) and own.split("/")[-2] == plural]
        return {"items": found} if found else None

    async def get(self, path: str) -> Object:
        item = self.objects[path]
        return {**item, "metadata": {**item["metadata"], "generation": 1}, "status": {"conditions": self.conditions}}

    async def delete(self, path: str) -> None:
        del self.objects[path]

    def names(self) -> set[str]:
        return {f"{item['kind']} {item['metadata']['name']}" for item in self.objects.values()}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TwinHome]:
    binary = tmp_path / NAME
    binary.write_text(OPERATOR)
    binary.chmod(0o755)
    monkeypatch.setattr(tools, "built", lambda families: {NAME: binary})
    home = TwinHome(tmp_path / "home")
    certificates.ensure(home)
    yield home
    processes.stop_all(home, seconds=5)


def release(name: str = "kube-prometheus-stack", **values: Any) -> Release:
    return Release(name, "monitoring", "kube-prometheus-stack", "88.5.3", values, "1")


async def install(stack: PrometheusStack, wanted: Release) -> None:
    """Run the chart until it is ready, then stop."""
    ready = asyncio.Event()

    async def announce() -> None:
        ready.set()

    running = asyncio.create_task(stack.run(wanted, announce))
    waiting = asyncio.create_task(ready.wait())
    await asyncio.wait({running, waiting}, timeout=SECONDS, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if running.done():
        await running
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert ready.is_set(), f"waited {SECONDS:g} s in vain for the chart to be ready"


def made(home: TwinHome, cluster: Cluster) -> PrometheusStack:
    api: Any = cluster
    return PrometheusStack(ChartContext(home, api, "https://127.0.0.1:6443", "", "", "", "us-west-2", ""))


def test_the_operator_runs_as_itself_outlives_who_started_it_and_goes_with_the_release(home: TwinHome) -> None:
    cluster = Cluster([AVAILABLE])
    stack = made(home, cluster)
    asyncio.run(install(stack, release()))
    record = processes.find(home, NAME)
    assert record is not None
    assert "--apiserver=https://127.0.0.1:6443" in record.argv
    assert f"--cert-file={home.pki / 'prometheus-operator.crt'}" in record.argv
    assert record.argv[-1].endswith(f"/prometheus-config-reloader:{tools.FAMILIES[NAME].version()}")
    assert "Prometheus kube-prometheus-stack-prometheus" in cluster.names()

    asyncio.run(install(stack, release()))
    again = processes.find(home, NAME)
    assert again is not None and again.pid == record.pid

    asyncio.run(stack.remove())
    assert processes.find(home, NAME) is None
    assert cluster.objects == {}


def test_what_a_release_of_another_name_had_is_removed(home: TwinHome) -> None:
    cluster = Cluster([AVAILABLE])
    stack = made(home, cluster)
    asyncio.run(install(stack, release("kube-prometheus-stack")))
    asyncio.run(install(stack, release("my-kube-prometheus-stack")))
    assert {name for name in cluster.names() if "my-kube" not in name} == set()


def test_a_prometheus_that_does_not_come_up_is_told_with_the_operators_words(
    home: TwinHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operator, "_AVAILABLE_SECONDS", 0.0)
    of_before = {**AVAILABLE, "observedGeneration": 0}
    with pytest.raises(ChartFailed, match=r"monitoring/kube-prometheus-stack-prometheus .* says nothing of it"):
        asyncio.run(install(made(home, Cluster([of_before])), release()))
    failed = {**AVAILABLE, "status": "False", "message": "shard 0: pod prometheus-0: crash loop"}
    with pytest.raises(ChartFailed, match=r"pod prometheus-0: crash loop; `kubectl describe pods --namespace monitoring`"):
        asyncio.run(install(made(home, Cluster([failed])), release()))


def test_values_that_make_no_prometheus_are_refused_in_the_api_servers_words(home: TwinHome) -> None:
    cluster = Cluster([AVAILABLE])
    cluster.refused = "Prometheus"
    with pytest.raises(ChartFailed, match=r'the values of kube-prometheus-stack make: .* unknown field "spec.retentionn"'):
        asyncio.run(install(made(home, cluster), release()))
