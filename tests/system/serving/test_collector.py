"""The real collector with our configuration, between a real Triton and an endpoint that records the exported spans.

It is built from its own modules (twin/tools/otelcol), in the version of the pinned chart, without the exporter for X-Ray.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from rich.console import Console
from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_fixed

from infra.platform.tracing import collector_config
from spec.charts import OPENTELEMETRY_COLLECTOR
from spec.settings.serving import ModelServing
from spec.settings.tracing import Tracing
from tests.modelctl.servers import loopback_address
from tests.system.serving import models
from tests.system.serving.collector import PATH, Collector, running_collector
from tests.system.serving.models import Timing
from tests.system.serving.pods import Kubelet
from tests.system.serving.test_tracing import ARRIVAL_SECONDS, CALLER, over_http, send_each
from twin.host import tools
from twin.host.tools import FAMILIES

SLO_MS = 2000
DECISION_SECONDS = 6
"""Longer than the few seconds after which Triton sends spans, but short, so the test is fast."""


@dataclass(frozen=True)
class Running:
    """The collector's address for OTLP over HTTP."""

    url: str


@pytest.fixture(scope="module")
def otelcol() -> Path:
    return tools.ensure(["otelcol"], Console(stderr=True))["otelcol"]


@pytest.fixture
def kept() -> Iterator[Collector]:
    with running_collector() as running:
        yield running


@pytest.fixture
def running(otelcol: Path, kept: Collector, tmp_path: Path) -> Iterator[Running]:
    """Run the collector, which exports only slow and failed requests."""
    file, log, address = tmp_path / "collector.yaml", tmp_path / "collector.log", loopback_address()
    file.write_text(yaml.safe_dump(configuration(kept.url.removesuffix(PATH))))
    with log.open("w") as output:
        argv = [str(otelcol), "--config", f"file:{file}"]
        process = subprocess.Popen(argv, env={**os.environ, "MY_POD_IP": address}, stderr=output, stdout=output)
    try:
        _until_healthy(f"http://{address}:13133/", process, log)
        yield Running(f"http://{address}:4318{PATH}")
    finally:
        process.terminate()
        process.wait(30)


def configuration(endpoint: str) -> dict[str, Any]:
    """Return a stack's configuration, with another wait."""
    tracing = Tracing.model_validate({"exporter": "otlp", "endpoint": endpoint, "keepPercent": 0})
    model = {"device": "cpu", "sloP95Ms": SLO_MS, "expectedRate": 1.0, "peakRate": 10.0}
    made = collector_config(tracing, {"echo": ModelServing.model_validate(model)}, 60, "us-west-2")
    made["processors"]["tail_sampling"]["decision_wait"] = f"{DECISION_SECONDS}s"
    return made


class _NotYet(Exception):
    pass


@retry(retry=retry_if_exception_type(_NotYet), stop=stop_after_delay(30), wait=wait_fixed(0.1), reraise=True)
def _until_healthy(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    assert process.poll() is None, f"the collector ended:\n{log.read_text()[-3000:]}"
    try:
        httpx.get(url, timeout=2, trust_env=False).raise_for_status()
    except httpx.HTTPError as error:
        raise _NotYet(f"the collector is not healthy: {error}\n{log.read_text()[-3000:]}") from None


def test_it_is_the_release_of_the_pinned_chart() -> None:
    """Chart 0.170.0 brings collector 0.158.0 (docs/facts/charts.md#opentelemetry-collector)."""
    assert (OPENTELEMETRY_COLLECTOR.version, FAMILIES["otelcol"].version()) == ("0.170.0", "v0.158.0")


def test_what_was_slow_or_refused_stays_and_the_rest_goes(
    kubelet: Kubelet, repository: Path, running: Running, kept: Collector, tmp_path: Path
) -> None:
    gate = tmp_path / "open"
    models.write(repository, timing=Timing(queue=5, gate=gate))
    overrides = {"tracing": {"endpoint": running.url, "rate": 1}}
    pod = kubelet.pod({"echo": 1}, repository, overrides).start().until_ready()

    alone, together = secrets.token_hex(16), [secrets.token_hex(16) for _ in range(12)]
    gate.touch()
    assert over_http(pod, f"00-{alone}-{CALLER}-01") == 200
    gate.unlink()
    with ThreadPoolExecutor(len(together)) as pool:
        sent = send_each(pool, pod, gate, together)
        # One is in execution, and a full queue waits until the gate opens.
        pod.until(lambda: sum(answer.done() for answer in sent.values()) == 6, "six requests to be refused", 60)
        slow_at = time.monotonic() + SLO_MS / 1000
        pod.until(lambda: time.monotonic() > slow_at, "those that wait to be slow", 60)
        gate.touch()
    codes = {trace: answer.result() for trace, answer in sent.items()}
    refused = {trace for trace, code in codes.items() if code == 503}
    slow = {trace for trace, code in codes.items() if code == 200}
    assert (len(refused), len(slow)) == (6, 6)

    def names(trace: str) -> set[str]:
        return {span.name for span in kept.of_trace(trace)}

    def arrived() -> bool:
        every = {"InferRequest", "echo", "compute"}
        return all("echo" in names(trace) for trace in refused) and all(names(trace) == every for trace in slow)

    pod.until(arrived, "the refused and the slow traces", ARRIVAL_SECONDS)
    for trace in refused:
        assert {span.name for span in kept.of_trace(trace) if span.failed} == {"echo"}
    for trace in slow:
        spans = kept.of_trace(trace)
        assert not any(span.failed for span in spans)
        assert max(span.milliseconds for span in spans) >= SLO_MS
        assert all("triton.answered" not in span.attributes for span in spans)
    assert {span.trace_id for span in kept.spans} == refused | slow, "not the quick one"
    assert kept.refused == []
