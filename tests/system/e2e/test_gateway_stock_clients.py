"""Unmodified clients that do not know the gateway: tritonclient, and the Open Inference Protocol's own clients."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as over_grpc
import tritonclient.http as over_http
from tritonclient.utils import InferenceServerException

from examples.gateway import headers
from infra.serving import all_models_route
from infra.serving.triton_values import read_drain
from spec.names import ALL_MODELS_ROUTE
from tests.paths import ROOT
from tests.system.e2e.gateway_load import MODEL, VALUES
from tests.system.e2e.gateway_twin import Gateway, listens, until

API = {"http": over_http, "grpc": over_grpc}
READS: dict[str, Callable[[Any], Any]] = {
    "live": lambda client: client.is_server_live(),
    "ready": lambda client: client.is_server_ready(),
    "model ready": lambda client: client.is_model_ready(MODEL),
    "version ready": lambda client: client.is_model_ready(MODEL, "1"),
    "server metadata": lambda client: named(client.get_server_metadata()),
    "model metadata": lambda client: named(client.get_model_metadata(MODEL)),
    "configuration": lambda client: named(client.get_model_config(MODEL)),
}
CLOSED: dict[str, Callable[[Any], Any]] = {
    "statistics": lambda client: client.get_inference_statistics(),
    "a model's statistics": lambda client: client.get_inference_statistics(MODEL),
    "repository": lambda client: client.get_model_repository_index(),
    "load": lambda client: client.load_model(MODEL),
    "unload": lambda client: client.unload_model(MODEL),
    "logging": lambda client: client.get_log_settings(),
    "trace": lambda client: client.get_trace_settings(),
    "a model's trace": lambda client: client.get_trace_settings(MODEL),
    "system shared memory": lambda client: client.get_system_shared_memory_status(),
    "register system shared memory": lambda client: client.register_system_shared_memory("x", "/x", 8),
    "CUDA shared memory": lambda client: client.get_cuda_shared_memory_status(),
}


def named(answer: Any) -> str:
    """Return the name in a response of either protocol."""
    if isinstance(answer, dict):
        return str(answer["name"])
    return str(answer.config.name if hasattr(answer, "config") else answer.name)


def client(gateway: Gateway, protocol: str) -> Any:
    return API[protocol].InferenceServerClient(getattr(gateway, protocol))


def tensors(protocol: str) -> list[Any]:
    tensor = API[protocol].InferInput("NORMALIZED", [1, 4], "FP32")
    tensor.set_data_from_numpy(np.array([VALUES], dtype=np.float32))
    return [tensor]


@pytest.mark.parametrize("protocol", API)
def test_tritonclient_reads_and_infers_without_a_header(gateway: Gateway, protocol: str) -> None:
    with client(gateway, protocol) as stock:
        assert {name: call(stock) for name, call in READS.items()} == {
            "live": True,
            "ready": True,
            "model ready": True,
            "version ready": True,
            "server metadata": "triton",
            "model metadata": MODEL,
            "configuration": MODEL,
        }
        assert stock.infer(MODEL, tensors(protocol)).as_numpy("CLASS").shape == (1, 1)
        assert stock.infer(MODEL, tensors(protocol), model_version="1").as_numpy("CLASS").shape == (1, 1)
        with pytest.raises(InferenceServerException, match="unknown model"):
            stock.get_model_metadata("no_such_model")


@pytest.mark.parametrize("protocol", API)
def test_calls_that_change_or_tell_more_of_the_server_stay_closed(gateway: Gateway, protocol: str) -> None:
    refusals = {"http": "404", "grpc": "StatusCode.UNIMPLEMENTED"}
    found = {}
    with client(gateway, protocol) as stock:
        for name, call in CLOSED.items():
            with pytest.raises(InferenceServerException) as refused:
                call(stock)
            found[name] = str(refused.value.status())
    assert found == dict.fromkeys(CLOSED, refusals[protocol])


def test_the_open_inference_protocols_own_clients_work(gateway: Gateway) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.system.e2e.open_inference_client", gateway.http, gateway.grpc],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "http": {"server": "triton", "models": [MODEL, MODEL], "outputs": [["CLASS", "SCORES"]] * 2},
        "grpc": {
            "live": True,
            "ready": True,
            "model ready": True,
            "server": "triton",
            "model": MODEL,
            "outputs": ["CLASS", "SCORES"],
        },
    }


def routed_with(gateway: Gateway, **serving: Any) -> None:
    """Apply the routes for clients without headers, for a stack whose MODEL has other settings."""
    settings = gateway.settings()
    changed = {**settings.models.serving, MODEL: gateway.serving(**serving)}
    read = settings.model_copy(update={"models": settings.models.model_copy(update={"serving": changed})})
    with gateway.told():
        for manifest in all_models_route.manifests(read, read_drain("local", changed)):
            gateway.apply(manifest)


def test_streams_pass_without_a_header_where_a_model_streams(gateway: Gateway) -> None:
    answers: list[Any] = []

    def stream() -> None:
        with client(gateway, "grpc") as stock:
            stock.start_stream(lambda result, error: answers.append(error or result))
            for _ in range(3):
                stock.async_stream_infer(MODEL, tensors("grpc"))
            until(lambda: len(answers) >= 3 or any(isinstance(one, InferenceServerException) for one in answers), "answers")
            stock.stop_stream()

    stream()
    (refused,) = answers[:1]
    assert isinstance(refused, InferenceServerException), "no model of the stack streams"
    routed_with(gateway, decoupled=True)
    try:
        answers.clear()
        stream()
        assert [answer.as_numpy("CLASS").shape for answer in answers] == [(1, 1)] * 3
    finally:
        routed_with(gateway)


def test_the_route_without_a_header_is_no_way_around_the_rate_of_a_model(gateway: Gateway) -> None:
    """The lowest peak rate of 2 allows 7 a second; a request with the header has its model's own rate."""
    routed_with(gateway, expected_rate=1.0, peak_rate=2.0)
    try:
        envoy = f"{listens(gateway.envoys()[0])}:8001"
        with over_grpc.InferenceServerClient(envoy) as stock:

            def outcomes(**named: Any) -> list[str]:
                found = []
                for _ in range(50):
                    try:
                        stock.infer(MODEL, tensors("grpc"), **named)
                        found.append("answered")
                    except InferenceServerException as error:
                        found.append(str(error.status()))
                return found

            begun = time.monotonic()
            without = outcomes()
            most = 7 * (math.floor(time.monotonic() - begun) + 2)
            assert 7 <= without.count("answered") <= most < 50
            assert set(without) == {"answered", "StatusCode.UNAVAILABLE"}
            assert outcomes(headers=headers(MODEL)) == ["answered"] * 50
    finally:
        routed_with(gateway)


def test_a_request_with_the_header_takes_the_route_of_its_model(gateway: Gateway) -> None:
    def counted() -> tuple[float, float]:
        metric = "envoy_cluster_grpc_ModelInfer_total"
        return gateway.counted(metric), gateway.counted(metric, f'[^"]*/triton/{ALL_MODELS_ROUTE}/[^"]*')

    with client(gateway, "grpc") as stock:
        for named, route in ((headers(MODEL), 0), ({}, 1)):
            before = counted()
            for _ in range(5):
                stock.infer(MODEL, tensors("grpc"), headers=named)
            after = counted()
            expected = [0.0, 0.0]
            expected[route] = 5.0
            assert [new - old for new, old in zip(after, before, strict=True)] == expected
