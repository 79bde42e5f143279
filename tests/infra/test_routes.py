"""The requests that have a route to Triton, and the settings of each model's routes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from infra.serving import routed_model, routes, traffic_policy
from infra.serving.routed_model import RoutedModel
from infra.serving.triton_values import Drain
from spec.names import TRITON_GRPC_PORT, TRITON_HTTP_PORT, TRITON_SERVICE
from spec.route_names import object_name
from spec.settings.gateway import Gateway
from spec.settings.models import Models
from spec.settings.serving import ModelServing, Sequence
from tests import crds
from tests.charts import rendering

GATEWAY = Gateway.model_validate({"replicas": 2, "cpu": "1", "memoryMiB": 512})
PRE_STOP, LONGEST = 30, 60
Manifest = dict[str, Any]


def serving(**keys: Any) -> ModelServing:
    return ModelServing.model_validate({"device": "cpu", "sloP95Ms": 50, "expectedRate": 40.0, "peakRate": 120.5, **keys})


PLAIN = RoutedModel("classify", serving())
SEQUENCE = RoutedModel("track", serving(sequence=Sequence(strategy="direct")))
DECOUPLED = RoutedModel("tell", serving(decoupled=True), decoupled=True)
UNKNOWN = RoutedModel("Pipe_line.v2", None)
OF_TWO_FLEETS = RoutedModel("classify", serving(), services=(("triton-g5", 95), ("triton-p4d", 5)))
WOKEN = replace(PLAIN, woken=True)
EVERY = (PLAIN, SEQUENCE, DECOUPLED, UNKNOWN, OF_TWO_FLEETS, WOKEN)


def made(model: RoutedModel) -> dict[str, Manifest]:
    """Return the objects of one model by kind."""
    return {manifest["kind"]: manifest for manifest in routes.manifests([model], Drain(PRE_STOP, LONGEST))}


def policy(model: RoutedModel) -> Manifest:
    return made(model)["BackendTrafficPolicy"]["spec"]


def http_rule(model: RoutedModel, method: str, path: str, **headers: str) -> Manifest | None:
    """Return the rule that a request matches: the first match among rules with an exact path, then among the others."""

    def matches(match: Manifest) -> bool:
        kind, value = match["path"]["type"], match["path"]["value"]
        right_path = value == path if kind == "Exact" else re.fullmatch(value, path) is not None
        given = {name.replace("_", "-"): text for name, text in headers.items()}
        right_headers = all(
            re.fullmatch(header["value"], given.get(header["name"], "")) for header in match.get("headers", [])
        )
        return match["method"] == method and right_path and right_headers

    rules = made(model)["HTTPRoute"]["spec"]["rules"]
    return next((rule for rule in rules if any(matches(match) for match in rule["matches"])), None)


def test_an_ensemble_streams_where_a_step_of_a_step_does() -> None:
    release = {
        "id": "0123456789ab" + 52 * "0",
        "bytes": 1,
        "models": {"outer": 1, "inner": 1, "tell": 1, "say": 1, "classify": 1, "plain": 1},
        "ensembles": {"outer": ["classify", "inner"], "inner": ["tell"], "plain": ["classify"]},
        "decoupled": ["say"],
    }
    wants = {"device": "cpu", "sloP95Ms": 50, "expectedRate": 1.0, "peakRate": 1.0}
    models = Models.model_validate(
        {"oldReleaseDays": 1, "release": release, "serving": {"tell": {**wants, "decoupled": True}, "classify": wants}},
        strict=False,
    )
    assert {model.name: model.streams for model in routed_model.routed(models, GATEWAY)} == {
        "outer": True,
        "inner": True,
        "tell": True,
        "say": True,
        "classify": False,
        "plain": False,
    }
    assert routed_model.routed(Models.model_validate({"oldReleaseDays": 1}), GATEWAY) == ()


@pytest.mark.parametrize("model", EVERY, ids=lambda model: f"{model.name}-{model.services}-{model.woken}")
def test_the_definitions_of_the_chart_know_every_field(model: RoutedModel) -> None:
    for manifest in made(model).values():
        assert crds.problems("gateway-helm", manifest) == []


def test_inference_over_http_is_routed_with_and_without_a_version() -> None:
    for path in ("/v2/models/classify/infer", "/v2/models/classify/versions/7/infer"):
        rule = http_rule(PLAIN, "POST", path)
        assert rule is not None
        assert rule["backendRefs"] == [{"name": "triton", "port": 8000}]


def test_a_name_is_no_pattern() -> None:
    """The dot matches only a dot: requests for one model are not counted or allowed as requests for another."""
    assert http_rule(UNKNOWN, "POST", "/v2/models/Pipe_line.v2/infer") is not None
    assert http_rule(UNKNOWN, "POST", "/v2/models/Pipe_lineXv2/infer") is None


NO_INFERENCE = (
    "/metrics",
    "/v2",
    "/v2/health/ready",
    "/v2/repository/index",
    "/v2/repository/models/{}/load",
    "/v2/repository/models/{}/unload",
    "/v2/models/stats",
    "/v2/models/{}",
    "/v2/models/{}/stats",
    "/v2/models/{}/config",
    "/v2/models/{}/ready",
    "/v2/models/{}/trace/setting",
    "/v2/trace/setting",
    "/v2/logging",
    "/v2/systemsharedmemory/region/x/register",
    "/v2/cudasharedmemory/status",
    "/v2/models/{}/infer/../../../repository/index",
    "/v2/models/{}/versions/1/../../config/infer",
    "/v2/models/other/infer",
)


@pytest.mark.parametrize("model", EVERY, ids=lambda model: f"{model.name}-{model.services}")
def test_nothing_else_is(model: RoutedModel) -> None:
    requests = [(method, path.format(model.name)) for method in ("GET", "POST") for path in NO_INFERENCE]
    ids = {"x_sequence_id": "1"}
    assert [request for request in requests if http_rule(model, *request, **ids) is not None] == []


def test_a_get_is_no_inference() -> None:
    assert http_rule(PLAIN, "GET", "/v2/models/classify/infer") is None


@pytest.mark.parametrize("end", ["generate", "generate_stream"])
def test_only_a_decoupled_model_generates(end: str) -> None:
    assert http_rule(DECOUPLED, "POST", f"/v2/models/tell/{end}") is not None
    assert http_rule(DECOUPLED, "POST", f"/v2/models/tell/versions/1/{end}") is None
    assert http_rule(PLAIN, "POST", f"/v2/models/classify/{end}") is None


@pytest.mark.parametrize("model", EVERY, ids=lambda model: f"{model.name}-{model.services}")
def test_metrics_have_no_route(model: RoutedModel) -> None:
    """No route names the port or the Service of the metrics."""
    for manifest in made(model).values():
        text = yaml.safe_dump(manifest)
        assert "8002" not in text
        assert "metrics" not in text


def test_the_backend_is_a_service_of_the_chart_with_these_ports() -> None:
    service = rendering.only(rendering.render(environment="prod"), "Service", TRITON_SERVICE)
    ports = {port["name"]: port["port"] for port in service["spec"]["ports"]}
    assert ports == {"http": TRITON_HTTP_PORT, "grpc": TRITON_GRPC_PORT}


def grpc_matches(model: RoutedModel) -> Iterator[tuple[str, str, dict[str, str]]]:
    for rule in made(model)["GRPCRoute"]["spec"]["rules"]:
        for match in rule["matches"]:
            headers = {header["name"]: header["value"] for header in match["headers"]}
            yield match["method"]["service"], match["method"]["method"], headers


def test_grpc_is_routed_by_the_header_that_names_the_model() -> None:
    service = "inference.GRPCInferenceService"
    assert list(grpc_matches(PLAIN)) == [(service, "ModelInfer", {"x-triton-model": "classify"})]
    ((escaped, methods, headers),) = grpc_matches(DECOUPLED)
    assert (re.fullmatch(escaped, service) is not None, headers) == (True, {"x-triton-model": "tell"})
    asked = ("ModelInfer", "ModelStreamInfer", "ModelMetadata", "ModelInferX", "Infer")
    assert [name for name in asked if re.fullmatch(f"/{escaped}/{methods}", f"/{service}/{name}")] == [*asked[:2]]
    assert made(PLAIN)["GRPCRoute"]["spec"]["rules"][0]["backendRefs"] == [{"name": "triton", "port": 8001}]


def test_a_sequence_needs_its_header_and_goes_to_one_server_by_it() -> None:
    assert http_rule(SEQUENCE, "POST", "/v2/models/track/infer") is None
    assert http_rule(SEQUENCE, "POST", "/v2/models/track/infer", x_sequence_id="42") is not None
    assert {headers["x-sequence-id"] for _, _, headers in grpc_matches(SEQUENCE)} == {".+"}
    assert policy(SEQUENCE)["loadBalancer"] == {
        "type": "ConsistentHash",
        "consistentHash": {"type": "Headers", "headers": [{"name": "x-sequence-id"}]},
    }
    assert policy(PLAIN)["loadBalancer"] == {"type": "LeastRequest", "slowStart": {"window": "30s"}}


def test_the_two_routes_of_a_model_have_one_policy_and_a_listener_each() -> None:
    objects = made(UNKNOWN)
    name = objects["HTTPRoute"]["metadata"]["name"]
    assert {(item["metadata"]["name"], item["metadata"]["namespace"]) for item in objects.values()} == {(name, "triton")}
    targets = policy(UNKNOWN)["targetRefs"]
    assert [(target["kind"], target["name"]) for target in targets] == [("HTTPRoute", name), ("GRPCRoute", name)]
    listeners = [objects[kind]["spec"]["parentRefs"][0]["sectionName"] for kind in ("HTTPRoute", "GRPCRoute")]
    assert listeners == ["http", "grpc"]


def test_requests_are_sent_again_only_where_no_server_began_them() -> None:
    retry = policy(PLAIN)["retry"]
    assert retry["retryOn"] == {
        "triggers": [
            "connect-failure",
            "refused-stream",
            "reset-before-request",
            "retriable-status-codes",
            "unavailable",
        ],
        "httpStatusCodes": [503],
    }
    assert policy(PLAIN)["circuitBreaker"]["retryBudget"] == {"percent": {"numerator": 20}, "minRetryConcurrency": 3}
    assert "retry" not in policy(SEQUENCE)


def test_a_request_may_take_its_time_in_the_queue_and_its_slo() -> None:
    """0.2 s here, rounded up to whole seconds. A model unknown to the stack gets the longest timeout, a stream gets none."""
    assert policy(PLAIN)["timeout"]["http"]["requestTimeout"] == "1s"
    assert policy(UNKNOWN)["timeout"]["http"]["requestTimeout"] == f"{LONGEST}s"
    assert policy(DECOUPLED)["timeout"]["http"]["requestTimeout"] == "0s"


@pytest.mark.parametrize(("pre_stop", "idle"), [(30, "15s"), (10, "5s"), (2, "1s"), (1, "1s")])
def test_idle_connections_are_gone_before_a_server_is_told_to_stop(pre_stop: int, idle: str) -> None:
    spec = traffic_policy.policy_spec(PLAIN, "classify", Drain(pre_stop, LONGEST))
    assert spec["timeout"]["http"]["connectionIdleTimeout"] == idle


@pytest.mark.parametrize(
    ("peak", "limit"),
    [
        (120.5, {"requests": 154, "unit": "Second"}),
        (1.0, {"requests": 4, "unit": "Second"}),
        (0.2, {"requests": 801, "unit": "Hour"}),
        (0.001, {"requests": 10, "unit": "Hour"}),
    ],
)
def test_each_envoy_lets_the_peak_rate_and_what_chance_adds_through(peak: float, limit: dict[str, Any]) -> None:
    model = RoutedModel("classify", serving(expectedRate=peak, peakRate=peak))
    assert policy(model)["rateLimit"] == {"type": "Local", "local": {"rules": [{"limit": limit}]}}


@pytest.mark.parametrize(("model", "counters"), [(PLAIN, 2), (OF_TWO_FLEETS, 2), (SEQUENCE, 2), (DECOUPLED, 2)], ids=str)
def test_the_rate_is_counted_for_each_match_of_each_rule(model: RoutedModel, counters: int) -> None:
    """Envoy Gateway creates a route for each match, and Envoy a counter for each route: the number in docs/traffic.md."""
    rules = [*routes.http_route_spec(model)["rules"], *routes.grpc_route_spec(model)["rules"]]
    assert sum(len(rule["matches"]) for rule in rules) == counters


def test_a_model_that_the_stack_says_nothing_of_has_the_least_rate_of_the_others() -> None:
    ensemble = replace(UNKNOWN, least_peak_rate=serving().peak_rate)
    assert policy(ensemble)["rateLimit"] == policy(PLAIN)["rateLimit"]
    assert "rateLimit" not in policy(UNKNOWN)


def test_a_pod_that_answers_everything_with_an_error_is_left_out_for_a_while() -> None:
    assert policy(PLAIN)["healthCheck"] == {
        "passive": {
            "consecutive5XxErrors": 50,
            "interval": "200ms",
            "baseEjectionTime": "30s",
            "maxEjectionPercent": 50,
        }
    }


def test_there_is_room_for_what_may_be_in_flight() -> None:
    busy = RoutedModel("busy", serving(peakRate=2000.0, sloP95Ms=1000))
    assert policy(busy)["circuitBreaker"]["maxParallelRequests"] == 8000
    assert policy(PLAIN)["circuitBreaker"]["maxParallelRequests"] == 1024


def test_a_client_of_a_fleet_that_its_request_starts_is_told_when_to_ask_again() -> None:
    (rule,) = policy(WOKEN)["responseOverride"]
    assert (rule["match"], rule["source"]) == ({"statusCodes": [{"type": "Value", "value": 503}]}, "Local")
    response = rule["response"]
    assert response["header"] == {"set": [{"name": "Retry-After", "value": "15"}]}
    assert json.loads(response["body"]["inline"]) == {"error": "no pod answers for this model yet; ask again"}
    assert "statusCode" not in response, "503 stays"
    assert "responseOverride" not in policy(PLAIN)


def test_fleets_share_requests_by_weight_over_http_and_grpc() -> None:
    for kind, port in (("HTTPRoute", 8000), ("GRPCRoute", 8001)):
        for rule in made(OF_TWO_FLEETS)[kind]["spec"]["rules"]:
            assert rule["backendRefs"] == [
                {"name": "triton-g5", "port": port, "weight": 95},
                {"name": "triton-p4d", "port": port, "weight": 5},
            ]


@given(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", fullmatch=True))
def test_every_model_has_a_name_that_kubernetes_takes(name: str) -> None:
    assert re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", object_name(name))


def test_models_that_look_alike_do_not_share_objects() -> None:
    others = ["all-models", "openai-v1"]
    names = ["classify", "Classify", "classify.", "classify_", "c" * 60, "c" * 61, *others]
    assert len({object_name(name) for name in names}) == len(names)
    assert object_name("classify") == "classify"
    assert not {object_name(name) for name in names} & {*others}, "these are the names of routes of no model"
