"""Routes for clients that do not know the gateway: the requests that they allow or refuse, and their rate limits."""

from __future__ import annotations

import re
from typing import Any

import pytest

from infra.serving import all_models_route, routed_model, routes
from infra.serving.triton_values import Drain
from spec.settings import Settings, serving_digest
from tests import crds
from tests.spec.stack_config import settings
from tests.spec.test_openai import GATEWAY
from tests.spec.test_stack_mistakes_autoscaling import MONITORED, SCALED, scaling

DRAIN = Drain(30, 60)
CPU = {"device": "cpu", "sloP95Ms": 50, "expectedRate": 10.0, "peakRate": 100.0}
BUSY, SMALL = {**CPU, "peakRate": 400.0}, {**CPU, "peakRate": 25.0}
SERVICE = "inference.GRPCInferenceService"


def stack(serving: dict[str, Any] | None = None, **changes: Any) -> Settings:
    """Return a stack that serves `busy` and `small` through a gateway, with other model settings and other keys."""
    models = {"busy": BUSY, "small": SMALL} if serving is None else serving
    keys = {"gateway": GATEWAY, **changes, "models.release": None, "models.serving": models}
    release = {"id": "3f2a9c1b7d04" + 52 * "0", "bytes": 123456, "models": dict.fromkeys(models, 1)}
    return settings({**keys, "models.release": {**release, "serving": serving_digest(settings(keys))}})


def routed(read: Settings) -> dict[str, Any]:
    """Return the specs of the objects by kind."""
    return {one["kind"]: one["spec"] for one in all_models_route.manifests(read, DRAIN)}


def grpc_paths(match: dict[str, Any]) -> list[str]:
    """Return the methods of the inference service that a GRPCRoute match accepts, as Envoy Gateway reads it."""
    calls = (
        *("ServerLive", "ServerReady", "ModelReady", "ServerMetadata", "ModelMetadata", "ModelConfig"),
        *("ModelInfer", "ModelStreamInfer", "ModelStatistics", "RepositoryIndex", "RepositoryModelLoad"),
        *("RepositoryModelUnload", "SystemSharedMemoryStatus", "SystemSharedMemoryRegister", "SystemSharedMemoryUnregister"),
        *("CudaSharedMemoryStatus", "CudaSharedMemoryRegister", "CudaSharedMemoryUnregister", "TraceSetting", "LogSettings"),
    )
    method = match["method"]
    if method["type"] == "Exact":
        return [call for call in calls if (method["service"], method["method"]) == (SERVICE, call)]
    return [call for call in calls if re.fullmatch(f"/{method['service']}/{method['method']}", f"/{SERVICE}/{call}")]


READS = ["ServerLive", "ServerReady", "ModelReady", "ServerMetadata", "ModelMetadata", "ModelConfig"]


def test_over_grpc_inference_and_read_only_calls_pass_without_a_header() -> None:
    infer, reads = routed(stack())["GRPCRoute"]["rules"]
    assert [grpc_paths(match) for match in infer["matches"]] == [["ModelInfer"]]
    assert [grpc_paths(match) for match in reads["matches"]] == [READS]
    assert "headers" not in infer["matches"][0]
    assert infer["backendRefs"] == reads["backendRefs"] == [{"name": "triton", "port": 8001}]


def test_streams_pass_only_where_a_model_streams() -> None:
    tell = {**CPU, "decoupled": True, "latencyHistogram": False}
    infer = routed(stack({"tell": tell}))["GRPCRoute"]["rules"][0]
    assert grpc_paths(infer["matches"][0]) == ["ModelInfer", "ModelStreamInfer"]
    assert routed(stack({"tell": tell}))["BackendTrafficPolicy"]["timeout"]["http"]["requestTimeout"] == "0s"
    assert routed(stack())["BackendTrafficPolicy"]["timeout"]["http"]["requestTimeout"] == "60s"


def test_a_models_own_route_comes_first() -> None:
    """Of two routes, Envoy Gateway prefers an exact path, then the longer path, then more headers
    (https://github.com/envoyproxy/gateway/blob/v1.9.0/internal/gatewayapi/sort.go).
    """
    tell = {**CPU, "decoupled": True, "latencyHistogram": False}
    for serving in ({"busy": BUSY}, {"tell": tell}, {"busy": BUSY, "tell": tell}):
        read = stack(serving)
        assert read.gateway is not None

        def rank(match: dict[str, Any]) -> tuple[bool, int, int]:
            method = match["method"]
            path = f"/{method['service']}/{method['method']}"
            return method["type"] == "Exact", len(path), len(match.get("headers", []))

        everything = routed(read)["GRPCRoute"]["rules"][0]["matches"][0]
        for model in routed_model.routed(read.models, read.gateway, read.each_fleet):
            (own,) = routes.grpc_route_spec(model)["rules"][0]["matches"]
            assert rank(own) > rank(everything)


ALLOWED = (
    "/v2",
    "/v2/health/live",
    "/v2/health/ready",
    "/v2/models/busy",
    "/v2/models/busy/config",
    "/v2/models/busy/ready",
    "/v2/models/busy/versions/12",
    "/v2/models/busy/versions/12/config",
    "/v2/models/busy/versions/12/ready",
    "/v2/models/statistics",
    "/v2/models/stat",
    "/v2/models/stack",
    "/v2/models/s",
    "/v2/models/stats/config",
)
REFUSED = (
    "/",
    "/metrics",
    "/v2/",
    "/v2/health",
    "/v2/models",
    "/v2/models/",
    "/v2/models/stats",
    "/v2/models/busy/stats",
    "/v2/models/busy/versions/12/stats",
    "/v2/models/busy/trace/setting",
    "/v2/models/busy/infer",
    "/v2/trace/setting",
    "/v2/logging",
    "/v2/repository/index",
    "/v2/repository/models/busy/load",
    "/v2/systemsharedmemory/status",
    "/v2/cudasharedmemory/status",
    "/v2/models/busy/versions/x",
)


def test_over_http_read_only_calls_pass_and_no_others() -> None:
    (rule,) = routed(stack())["HTTPRoute"]["rules"]
    (match,) = rule["matches"]
    assert match["method"] == "GET"
    pattern = match["path"]["value"]
    assert len(pattern) <= 1024, "the most that the Gateway API takes"
    assert [path for path in (*ALLOWED, *REFUSED) if re.fullmatch(pattern, path)] == [*ALLOWED]
    assert rule["backendRefs"] == [{"name": "triton", "port": 8000}]


def test_no_request_says_its_model_to_the_logs() -> None:
    rules = [rule for kind in ("HTTPRoute", "GRPCRoute") for rule in routed(stack())[kind]["rules"]]
    removed = [one["requestHeaderModifier"] for rule in rules for one in rule["filters"]]
    assert removed == [{"remove": ["x-triton-model"]}] * 3


def test_they_are_limited_by_the_lowest_peak_rate() -> None:
    """The limit is the lowest peak rate, 25, plus three standard deviations (15); busier models do not raise it."""
    policy = routed(stack())["BackendTrafficPolicy"]
    assert policy["rateLimit"]["local"]["rules"] == [{"limit": {"requests": 40, "unit": "Second"}}]
    assert [(target["kind"], target["name"]) for target in policy["targetRefs"]] == [
        ("HTTPRoute", "all-models"),
        ("GRPCRoute", "all-models"),
    ]


@pytest.mark.parametrize("client", [{"models": ["busy"]}, {"requestsPerSecond": 5}])
def test_a_restricted_client_closes_them(client: dict[str, Any]) -> None:
    assert routed(stack(gateway={**GATEWAY, "clients": {"free": {}, "other": client}})) == {}


def test_clients_without_restrictions_are_known_there() -> None:
    objects = routed(stack(gateway={**GATEWAY, "clients": {"team-a": {}, "team-b": {}}}))
    assert list(objects) == ["SecurityPolicy", "GRPCRoute", "HTTPRoute", "BackendTrafficPolicy"]
    policy = objects["SecurityPolicy"]
    assert policy["authorization"]["defaultAction"] == "Deny"
    assert [rule["name"] for rule in policy["authorization"]["rules"]] == ["team-a", "team-b"]
    assert policy["targetRefs"] == objects["BackendTrafficPolicy"]["targetRefs"]


def test_sequences_keep_to_the_route_of_their_model() -> None:
    """Without the model's header, a sequence would be spread over servers that refuse its parts."""
    track = {**CPU, "sequence": {"strategy": "direct"}}
    (rule,) = routed(stack({"busy": BUSY, "track": track}))["GRPCRoute"]["rules"]
    assert grpc_paths(rule["matches"][0]) == READS


def test_a_probe_starts_no_pod_of_a_fleet_that_requests_start() -> None:
    to_zero = {**SCALED, **MONITORED, "autoscaling": scaling(minReplicas=0)}
    objects = routed(stack(**to_zero))
    assert "HTTPRoute" not in objects
    (rule,) = objects["GRPCRoute"]["rules"]
    assert grpc_paths(rule["matches"][0]) == ["ModelInfer"]
    assert [target["kind"] for target in objects["BackendTrafficPolicy"]["targetRefs"]] == ["GRPCRoute"]


FLEETS = [{"name": "all", "models": ["busy", "small"], "replicas": 1}, {"name": "more", "models": ["busy"], "replicas": 1}]


def test_of_several_fleets_those_with_all_models_answer() -> None:
    read = stack(fleets=FLEETS, **{"triton.replicas": None})
    assert routed(read)["HTTPRoute"]["rules"][0]["backendRefs"] == [{"name": "triton-all", "port": 8000}]
    apart = [{**FLEETS[0], "models": ["small"]}, FLEETS[1]]
    assert routed(stack(fleets=apart, **{"triton.replicas": None})) == {}
    moving = [{**FLEETS[0], "weights": {"busy": 0}}, FLEETS[1]]
    assert routed(stack(fleets=moving, **{"triton.replicas": None})) == {}


def test_the_definitions_know_every_field() -> None:
    read = stack(gateway={**GATEWAY, "clients": {"team-a": {}}})
    for one in all_models_route.manifests(read, DRAIN):
        assert crds.problems("gateway-helm", one) == []


def test_there_are_none_without_a_gateway() -> None:
    assert routed(stack(gateway=None)) == {}
