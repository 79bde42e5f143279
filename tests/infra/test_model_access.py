"""Clients and rate limits of each model at the gateway, in the objects that Envoy Gateway gets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from infra.platform import gateway as envoy
from infra.serving import model_access, routed_model, routes
from infra.serving.routed_model import RoutedModel
from infra.serving.triton_values import Drain
from spec.settings.gateway import Gateway
from spec.settings.models import Models
from tests import crds
from tests.infra.test_fleets import GATEWAY
from tests.spec import test_fleets as fleets

JWT = {
    "issuer": "https://login.example.com/",
    "jwksUri": "https://login.example.com/keys",
    "audiences": ["inference"],
    "clientClaim": "client_id",
}
CLIENTS: dict[str, Any] = {
    "team-a": {"models": ["classify"], "requestsPerSecond": 50},
    "team-b": {"claim": "0oa1b2"},
}
Manifest = dict[str, Any]
DRAIN = Drain(30, 60)


def gateway(**keys: Any) -> Gateway:
    clients = {
        name: {key: value for key, value in CLIENTS[name].items() if key != "claim" or "jwt" in keys} for name in CLIENTS
    }
    return Gateway.model_validate(
        {"replicas": 2, "cpu": "1", "memoryMiB": 512, "clients": _tuples(clients), **_tuples(keys)}, by_alias=True
    )


def _tuples(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _tuples(item) for key, item in value.items()}
    return tuple(value) if isinstance(value, list) else value


def models(peak_rate: float = 100.0, **keys: Any) -> dict[str, RoutedModel]:
    serving = {"device": "cpu", "sloP95Ms": 50, "expectedRate": peak_rate, "peakRate": peak_rate}
    found = routed_model.routed(released({"classify": serving, "detect": serving}), gateway(**keys))
    return {model.name: model for model in found}


def released(serving: Manifest) -> Models:
    """Return a stack that serves a release of two models."""
    release = {"id": "3f2a9c1b7d04" + 52 * "0", "bytes": 1, "models": {"classify": 1, "detect": 1}}
    return Models.model_validate({"oldReleaseDays": 1, "release": release, "serving": serving})


def made(model: RoutedModel) -> dict[str, Manifest]:
    """Return the objects of a model by kind; its policy for gRPC as "SecurityPolicy.grpc"."""
    found = {}
    for manifest in routes.manifests([model], DRAIN):
        of_grpc = manifest["metadata"]["name"].endswith(".grpc")
        found[f"{manifest['kind']}{'.grpc' if of_grpc else ''}"] = manifest
    return found


def allowed(model: RoutedModel, policy: str = "SecurityPolicy") -> dict[str, Any]:
    """Return the allowed principal of each client of the model; the policy denies all others."""
    authorization = made(model)[policy]["spec"]["authorization"]
    assert authorization["defaultAction"] == "Deny"
    assert {rule["action"] for rule in authorization.get("rules", [])} <= {"Allow"}
    return {rule["name"]: rule["principal"] for rule in authorization.get("rules", [])}


@pytest.mark.parametrize("keys", [{}, {"jwt": JWT}], ids=["keys", "jwt"])
@pytest.mark.parametrize("peak_rate", [100.0, 0.5])
def test_the_definitions_of_the_chart_know_every_field(keys: dict[str, Any], peak_rate: float) -> None:
    for model in models(peak_rate, **keys).values():
        for manifest in made(model).values():
            assert crds.problems("gateway-helm", manifest) == []
    assert crds.problems("gateway-helm", model_access.refusal()) == []


def test_without_clients_a_model_has_no_policy_of_access() -> None:
    plain = Gateway.model_validate({"replicas": 2, "cpu": "1", "memoryMiB": 512})
    model = routed_model.routed(released({}), plain)[0]
    assert [*made(model)] == ["HTTPRoute", "GRPCRoute", "BackendTrafficPolicy"]


def test_each_route_has_a_policy_which_comes_before_it() -> None:
    objects = made(models()["classify"])
    assert [*objects] == ["SecurityPolicy.grpc", "SecurityPolicy", "HTTPRoute", "GRPCRoute", "BackendTrafficPolicy"]
    for policy, kind in (("SecurityPolicy", "HTTPRoute"), ("SecurityPolicy.grpc", "GRPCRoute")):
        (target,) = objects[policy]["spec"]["targetRefs"]
        assert (target["kind"], target["name"]) == (kind, objects[kind]["metadata"]["name"])
        assert objects[policy]["metadata"]["namespace"] == objects[kind]["metadata"]["namespace"]


def test_no_policy_for_grpc_has_the_name_of_another_models() -> None:
    """Models may have such names too."""
    access = model_access.ModelAccess(gateway().clients or {}, None)
    names = [
        manifest["metadata"]["name"]
        for name in ("classify", "classify.grpc", "classify-grpc")
        for manifest in routes.manifests([RoutedModel(name, None, access=access)], DRAIN)
        if manifest["kind"] == "SecurityPolicy"
    ]
    assert len(set(names)) == len(names) == 6


@pytest.mark.parametrize("policy", ["SecurityPolicy", "SecurityPolicy.grpc"])
def test_a_key_is_taken_from_the_header_and_not_sent_on(policy: str) -> None:
    assert made(models()["classify"])[policy]["spec"]["apiKeyAuth"] == {
        "credentialRefs": [{"kind": "Secret", "name": "client-keys", "namespace": "client-keys"}],
        "extractFrom": [{"headers": ["authorization", "x-api-key"]}],
        "forwardClientIDHeader": "x-triton-client",
        "sanitize": True,
    }


def test_each_client_may_ask_its_models_by_any_of_its_keys() -> None:
    def by(client: str) -> Manifest:
        slots = [f"{client}.current", f"{client}.next", f"{client}.previous"]
        return {"headers": [{"name": "x-triton-client", "values": slots}]}

    found = models()
    assert allowed(found["classify"]) == {"team-a": by("team-a"), "team-b": by("team-b")}
    assert allowed(found["detect"]) == {"team-b": by("team-b")}


def over_grpc(changes: dict[str, Any]) -> dict[str, set[str]]:
    """Return each model's gRPC clients for the models of the three fleets. The clients of each fleet know its models."""
    clients = {
        "all": {},
        "one": {"models": ["embed"]},
        "of-g5": {"models": ["pipeline", "tokenize", "embed"]},
        "of-p4d": {"models": ["rank"]},
    }
    stack = fleets.released({"gateway": {**GATEWAY, "clients": clients}, **changes})
    assert stack.gateway is not None
    return {
        model.name: set(allowed(model, "SecurityPolicy.grpc"))
        for model in routed_model.routed(stack.models, stack.gateway, stack.each_fleet)
    }


def test_over_grpc_who_may_ask_some_models_of_a_server_is_not_let_in() -> None:
    """Only the message names the model, and no proxy reads it: the header may name another model of the same pods."""
    found = models()
    assert [*allowed(found["classify"])] == ["team-a", "team-b"]
    assert [*allowed(found["classify"], "SecurityPolicy.grpc")] == ["team-b"]
    assert [*allowed(found["detect"], "SecurityPolicy.grpc")] == ["team-b"]


def test_over_grpc_who_may_ask_every_model_of_a_fleet_is_let_in_there() -> None:
    of_g5 = {"all", "of-g5"}
    # tokenize is also on the fleet cpu, which serves no other model.
    assert over_grpc({}) == {"embed": of_g5, "pipeline": of_g5, "tokenize": of_g5, "rank": {"all", "of-p4d"}}


def test_a_token_has_to_be_of_the_issuer_for_this_gateway_and_in_the_header() -> None:
    spec = made(models(jwt=JWT)["classify"])["SecurityPolicy"]["spec"]
    assert "apiKeyAuth" not in spec
    (provider,) = spec["jwt"]["providers"]
    assert provider == {
        "name": "clients",
        "issuer": "https://login.example.com/",
        "audiences": ["inference"],
        "remoteJWKS": {"uri": "https://login.example.com/keys"},
        "claimToHeaders": [{"claim": "client_id", "header": "x-triton-client"}],
        "extractFrom": {"headers": [{"name": "Authorization", "valuePrefix": "Bearer "}]},
    }


def test_a_token_says_by_its_claim_which_client_it_is() -> None:
    def by(value: str) -> Manifest:
        return {"jwt": {"provider": "clients", "claims": [{"name": "client_id", "values": [value]}]}}

    found = models(jwt=JWT)
    assert allowed(found["classify"]) == {"team-a": by("team-a"), "team-b": by("0oa1b2")}
    assert allowed(found["detect"]) == {"team-b": by("0oa1b2")}


def test_a_model_that_no_client_may_ask_is_closed() -> None:
    clients = {"a": gateway().clients["team-a"]}  # type: ignore[index]
    access = model_access.ModelAccess(clients, None).of_model("detect", {"detect"})
    assert access.http_spec([])["authorization"] == access.grpc_spec([])["authorization"] == {"defaultAction": "Deny"}


@pytest.mark.parametrize(
    ("keys", "selector"),
    [
        (
            {},
            {"type": "RegularExpression", "name": "x-triton-client", "value": r"team-a\.(current|next|previous)"},
        ),
        ({"jwt": JWT}, {"type": "Exact", "name": "x-triton-client", "value": "team-a"}),
    ],
    ids=["keys", "jwt"],
)
def test_a_client_with_a_rate_is_limited_apart_from_the_model(keys: dict[str, Any], selector: Manifest) -> None:
    found = models(**keys)
    limits = made(found["classify"])["BackendTrafficPolicy"]["spec"]["rateLimit"]["local"]["rules"]
    assert limits == [
        {"limit": {"requests": 130, "unit": "Second"}},
        {"clientSelectors": [{"headers": [selector]}], "limit": {"requests": 50, "unit": "Second"}},
    ]
    assert len(made(found["detect"])["BackendTrafficPolicy"]["spec"]["rateLimit"]["local"]["rules"]) == 1


def test_all_limits_of_a_route_have_one_unit() -> None:
    """Envoy Gateway refuses a limit per second next to a model's own limit per hour."""
    limits = made(models(0.5)["classify"])["BackendTrafficPolicy"]["spec"]["rateLimit"]["local"]["rules"]
    assert [rule["limit"] for rule in limits] == [
        {"requests": 1928, "unit": "Hour"},
        {"requests": 180_000, "unit": "Hour"},
    ]


@pytest.mark.parametrize(
    ("served", "most"), [(["classify"], 300), (["classify", "detect"], 150)], ids=["http-and-grpc", "http-alone"]
)
def test_what_a_client_gets_at_most_is_told(served: list[str], most: int) -> None:
    """50 a second, from three Envoys, for each match of the routes that the client may use."""
    model = models()["classify"]
    assert model.access is not None
    model = replace(model, access=model.access.of_model("classify", served))
    assert routes.client_rates([model, models()["detect"]], 3) == {"team-a": {"classify": most}}
    assert routes.client_rates([replace(model, access=None)], 3) == {}


def test_what_has_no_policy_of_its_own_is_closed() -> None:
    refusal = model_access.refusal()
    assert refusal["metadata"] == {"name": envoy.GATEWAY, "namespace": envoy.GATEWAY_NAMESPACE}
    assert refusal["spec"] == {
        "targetRefs": [{"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "inference"}],
        "authorization": {"defaultAction": "Deny"},
    }


def test_nobody_says_himself_who_he_is() -> None:
    assert envoy.client_policy_spec(gateway())["headers"]["earlyRequestHeaders"] == {"remove": ["x-triton-client"]}
    without = gateway().model_copy(update={"clients": None})
    assert "earlyRequestHeaders" not in envoy.client_policy_spec(without)["headers"]
