"""Spans of a real server, started as in the chart, in a real OTLP endpoint (docs/facts/triton-server.md#tracing)."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import pytest
from tritonclient.grpc import InferenceServerClient, InferInput

from tests.system.serving import models
from tests.system.serving.collector import Collector, Span, running_collector
from tests.system.serving.models import Timing
from tests.system.serving.pods import Kubelet, Pod

INSTANT = Timing()
CALLER = "00f067aa0ba902b7"
ARRIVAL_SECONDS = 60.0
"""The server sends spans in batches, a few seconds after their end."""

# One client for all, because creating a client takes 50 ms, and requests that should overlap must be sent together. An
# idle connection would delay a server's exit.
HTTP = httpx.Client(timeout=60, trust_env=False, limits=httpx.Limits(max_keepalive_connections=0))

MakePod = Callable[..., Pod]


@pytest.fixture
def collector() -> Iterator[Collector]:
    with running_collector() as running:
        yield running


@pytest.fixture
def make_pod(kubelet: Kubelet, repository: Path, collector: Collector) -> MakePod:
    """Return a ready pod with the model `echo`, which traces every request by default."""

    def make(timing: Timing = INSTANT, **tracing: object) -> Pod:
        models.write(repository, timing=timing)
        overrides = {"tracing": {"endpoint": collector.url, "rate": 1, **tracing}}
        return kubelet.pod({"echo": 1}, repository, overrides).start().until_ready()

    return make


def over_http(pod: Pod, traceparent: str | None, value: float = 1.0) -> int:
    """Send one inference, and return the HTTP status."""
    url = f"{pod.http}/v2/models/echo/infer"
    headers = {} if traceparent is None else {"traceparent": traceparent}
    body = {"inputs": [{"name": "IN", "shape": [1, 1], "datatype": "FP32", "data": [value]}]}
    return HTTP.post(url, json=body, headers=headers).status_code


def over_grpc(pod: Pod, traceparent: str) -> int:
    """Send one inference over gRPC. Raises if it fails."""
    tensor = InferInput("IN", [1, 1], "FP32")
    tensor.set_data_from_numpy(np.ones((1, 1), np.float32))
    with InferenceServerClient(pod.grpc) as client:
        client.infer("echo", [tensor], headers={"traceparent": traceparent}, client_timeout=30)
    return 200


def arrived(pod: Pod, collector: Collector, trace: str, names: set[str]) -> dict[str, Span]:
    """Return the spans of one trace by name, as soon as these have arrived."""
    pod.until(
        lambda: names <= {span.name for span in collector.of_trace(trace)},
        f"the spans {sorted(names)} of trace {trace}; refused were {collector.refused}",
        ARRIVAL_SECONDS,
    )
    return {span.name: span for span in collector.of_trace(trace)}


@pytest.mark.parametrize("send", [over_http, over_grpc])
def test_the_spans_of_a_request_are_below_the_callers(
    make_pod: MakePod, collector: Collector, send: Callable[[Pod, str], int]
) -> None:
    pod = make_pod(Timing(seconds=0.2), serviceName="triton-prod")
    trace = secrets.token_hex(16)
    assert send(pod, f"00-{trace}-{CALLER}-01") == 200
    spans = arrived(pod, collector, trace, {"InferRequest", "echo", "compute"})
    assert set(spans) == {"InferRequest", "echo", "compute"}
    assert spans["InferRequest"].parent_id == CALLER
    assert spans["echo"].parent_id == spans["InferRequest"].span_id
    assert spans["compute"].parent_id == spans["echo"].span_id
    assert {span.service for span in spans.values()} == {"triton-prod"}
    assert spans["echo"].attributes["triton.model_name"] == "echo"
    assert spans["echo"].attributes["triton.model_version"] == 1
    assert spans["echo"].events == ("REQUEST_START", "QUEUE_START", "REQUEST_END")
    assert spans["compute"].events[0] == "COMPUTE_START"
    assert 200 <= spans["compute"].milliseconds <= spans["echo"].milliseconds <= spans["InferRequest"].milliseconds
    assert collector.refused == []


def send_each(pool: ThreadPoolExecutor, pod: Pod, gate: Path, traces: Sequence[str]) -> dict[str, Future[int]]:
    """Send one request for each trace. The first is in execution before the others arrive, so they have the whole queue."""

    def ask(trace: str) -> Future[int]:
        return pool.submit(over_http, pod, f"00-{trace}-{CALLER}-01")

    first, *others = traces
    sent = {first: ask(first)}
    pod.until(lambda: models.reached(gate), "a request to be in execution", 60)
    return sent | {trace: ask(trace) for trace in others}


def test_a_request_that_is_refused_has_no_end_and_no_status(make_pod: MakePod, collector: Collector, tmp_path: Path) -> None:
    """Triton marks no span as failed, so the collector uses the missing end (infra/platform/tracing.py)."""
    gate = tmp_path / "open"
    pod = make_pod(Timing(queue=1, gate=gate))
    traces = [secrets.token_hex(16) for _ in range(6)]
    with ThreadPoolExecutor(len(traces)) as pool:
        sent = send_each(pool, pod, gate, traces)
        # One is in execution and one in the queue until the gate opens.
        pod.until(lambda: sum(answer.done() for answer in sent.values()) == 4, "four requests to be refused", 60)
        gate.touch()
    codes = {trace: answer.result() for trace, answer in sent.items()}
    assert sorted(codes.values()) == [200, 200, 503, 503, 503, 503]
    for trace, code in codes.items():
        spans = arrived(pod, collector, trace, {"InferRequest", "echo"})
        assert ("REQUEST_END" in spans["echo"].events) is (code == 200)
        assert not any(span.failed for span in spans.values())


@pytest.mark.parametrize("value", [-0.5, -2.0], ids=["an error as its answer", "an exception"])
def test_a_request_whose_execution_failed_looks_like_any_other(
    make_pod: MakePod, collector: Collector, value: float
) -> None:
    """No status, attribute or event distinguishes it from an answer; only a gateway's span can (docs/traffic.md)."""
    pod = make_pod()
    answered, failed = secrets.token_hex(16), secrets.token_hex(16)
    assert over_http(pod, f"00-{answered}-{CALLER}-01") == 200
    assert over_http(pod, f"00-{failed}-{CALLER}-01", value) == 500
    shapes = []
    for trace in (answered, failed):
        spans = arrived(pod, collector, trace, {"InferRequest", "echo", "compute"})
        shapes.append({name: (span.events, span.attributes.keys(), span.failed) for name, span in spans.items()})
    assert shapes[0] == shapes[1]
    assert not any(failed for _, _, failed in shapes[1].values())


def test_one_of_so_many_requests_is_traced_and_every_one_with_a_traceparent(make_pod: MakePod, collector: Collector) -> None:
    """Its flags do not matter: behind a gateway that traces, the server's rate has no effect."""
    pod = make_pod(rate=5)
    with_parent = [secrets.token_hex(16) for _ in range(6)]
    for trace in with_parent:
        assert over_http(pod, f"00-{trace}-{CALLER}-00") == 200
    for _ in range(10):
        assert over_http(pod, None) == 200

    def roots() -> set[str]:
        return {span.trace_id for span in collector.spans if span.name == "InferRequest"}

    pod.until(lambda: len(roots()) >= 8, "eight traces", ARRIVAL_SECONDS)
    assert set(with_parent) < roots()
    assert len(roots() - set(with_parent)) == 2


def test_a_collector_that_is_away_costs_no_request(kubelet: Kubelet, repository: Path) -> None:
    models.write(repository)
    with running_collector() as gone:
        url = gone.url
    pod = kubelet.pod({"echo": 1}, repository, {"tracing": {"endpoint": url, "rate": 1}}).start().until_ready()
    assert [over_grpc(pod, f"00-{secrets.token_hex(16)}-{CALLER}-01") for _ in range(20)] == [200] * 20
