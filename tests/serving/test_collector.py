"""The real collector with our configuration, between a real Triton and an endpoint that takes what it keeps.

It is built from its own modules (twin/tools/otelcol), in the version of the pinned chart, without the exporter for X-Ray.
"""

from __future__ import annotations

import os
import secrets
import subprocess
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
from infra.settings.serving import ModelServing
from infra.settings.tracing import Tracing
from infra.versions import OPENTELEMETRY_COLLECTOR
from tests.modelctl.servers import loopback_address
from tests.serving import models
from tests.serving.collector import PATH, Collector, running_collector
from tests.serving.models import Timing
from tests.serving.pods import Kubelet
from tests.serving.test_tracing import ARRIVAL_SECONDS, CALLER, over_http
from twin import tools
from twin.tools import FAMILIES, ToolError

SLO_MS = 400
DECISION_SECONDS = 6
"""Longer than the few seconds after which Triton sends spans, and no longer, for the test's sake."""


@dataclass(frozen=True)
class Running:
    """The collector's address for OTLP over HTTP."""

    url: str


@pytest.fixture(scope="module")
def otelcol() -> Path:
    try:
        return tools.ensure(["otelcol"], Console(stderr=True))["otelcol"]
    except ToolError as error:
        pytest.skip(str(error))


@pytest.fixture
def kept() -> Iterator[Collector]:
    with running_collector() as running:
        yield running


@pytest.fixture
def running(otelcol: Path, kept: Collector, tmp_path: Path) -> Iterator[Running]:
    """The collector, which keeps what was slow or failed and nothing else."""
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
    """That of a stack, but for the wait."""
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
    """Chart 0.170.0 brings collector 0.158.0 (research kubernetes.md 1.1)."""
    assert (OPENTELEMETRY_COLLECTOR.version, FAMILIES["otelcol"].version()) == ("0.170.0", "v0.158.0")


def test_what_was_slow_or_refused_stays_and_the_rest_goes(
    kubelet: Kubelet, repository: Path, running: Running, kept: Collector
) -> None:
    models.write(repository, timing=Timing(seconds=0.15, queue=5))
    overrides = {"tracing": {"endpoint": running.url, "rate": 1}}
    pod = kubelet.pod({"echo": 1}, repository, overrides).start().until_ready()

    def ask(trace: str) -> int:
        return over_http(pod, f"00-{trace}-{CALLER}-01")

    alone, together = secrets.token_hex(16), [secrets.token_hex(16) for _ in range(12)]
    assert ask(alone) == 200
    with ThreadPoolExecutor(len(together)) as pool:
        codes = dict(zip(together, pool.map(ask, together), strict=True))
    refused = {trace for trace, code in codes.items() if code == 503}
    answered = {trace for trace, code in codes.items() if code == 200}
    assert refused
    assert answered

    def stayed() -> set[str]:
        return {span.trace_id for span in kept.spans if span.name == "InferRequest"}

    # The last of a full queue waited for five others: 0.75 s, which is slow.
    pod.until(lambda: refused < stayed(), "the refused and the slow traces", ARRIVAL_SECONDS)
    for trace in refused:
        assert {span.name for span in kept.of_trace(trace) if span.failed} == {"echo"}
    for trace in stayed() - refused:
        spans = kept.of_trace(trace)
        assert {span.name for span in spans} == {"InferRequest", "echo", "compute"}
        assert not any(span.failed for span in spans)
        assert max(span.milliseconds for span in spans) >= SLO_MS
        assert all("triton.answered" not in span.attributes for span in spans)
    assert stayed() - refused <= answered
    assert alone not in stayed()
    assert kept.refused == []
