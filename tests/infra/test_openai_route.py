"""The OpenAI-compatible front end: the chart's values, and its route through the gateway."""

from __future__ import annotations

import contextlib
import re
from typing import Any

import pulumi_kubernetes as k8s

from infra.serving import openai_route
from infra.serving.routes import ModelRoutes
from infra.serving.triton import FleetArgs, values
from infra.serving.triton_values import Drain
from spec.settings import Settings
from spec.versions import PROJECT
from tests import crds
from tests.charts import rendering
from tests.infra.access import access, stack
from tests.paths import ROOT
from tests.spec.stack_config import settings
from tests.spec.test_openai import GATEWAY, OPENAI, RELEASE, TOKENIZER
from tests.spec.test_stack_mistakes_autoscaling import MONITORED, SCALED, scaling
from tests.system.component.engine.account import fresh_account
from tests.system.component.engine.program import run
from twin.aws.base.clients import Clients

DRAIN = Drain(30, 60)


def stack_with(**gateway: Any) -> Settings:
    return settings({**OPENAI, "models.release": RELEASE, "gateway": {**GATEWAY, **gateway}})


def made(read: Settings) -> dict[str, dict[str, Any]]:
    return {one["kind"]: one for one in openai_route.manifests(read, DRAIN)}


def test_the_chart_gets_the_tokenizer_and_no_name_of_configs() -> None:
    read = stack_with()
    assert read.models.release is not None
    given = values(stack(), FleetArgs(read.triton, read.triton_nodes, read.models, read.models.release))
    assert given["server"] == {"version": "26.07", "openai": {"tokenizer": TOKENIZER}}
    assert "configName" not in given["release"]


def test_what_clients_ask_is_routed_and_nothing_else() -> None:
    objects = made(stack_with())
    assert list(objects) == ["HTTPRoute", "BackendTrafficPolicy"]
    (rule,) = objects["HTTPRoute"]["spec"]["rules"]
    compute, models = ((match["method"], match["path"]["type"], match["path"]["value"]) for match in rule["matches"])
    assert models == ("GET", "Exact", "/v1/models")
    assert compute[:2] == ("POST", "RegularExpression"), "one match has one limit in each Envoy"
    tasks = ("chat/completions", "completions", "embeddings")
    others = ("models", "chat", "chat/embeddings", "completions/1", "models/chat/load", "")
    assert [task for task in (*tasks, *others) if re.fullmatch(compute[2], f"/v1/{task}")] == [*tasks]
    assert rule["backendRefs"] == [{"name": "triton", "port": 9000}]
    service = rendering.only(rendering.render({"server": {"openai": {"tokenizer": TOKENIZER}}}), "Service", "triton")
    assert 9000 in [port["port"] for port in service["spec"]["ports"]]
    policy = objects["BackendTrafficPolicy"]["spec"]
    assert policy["timeout"]["http"]["requestTimeout"] == "0s"
    assert [target["kind"] for target in policy["targetRefs"]] == ["HTTPRoute"]
    assert policy["rateLimit"]["local"]["rules"][0]["limit"]["requests"] > 0


def test_clients_are_known_there_as_at_the_models() -> None:
    objects = made(stack_with(clients={"team-a": {}, "team-b": {"requestsPerSecond": 5}}))
    assert list(objects) == ["SecurityPolicy", "HTTPRoute", "BackendTrafficPolicy"]
    spec = objects["SecurityPolicy"]["spec"]
    assert [rule["name"] for rule in spec["authorization"]["rules"]] == ["team-a", "team-b"]
    assert spec["authorization"]["defaultAction"] == "Deny"
    assert "apiKeyAuth" in spec
    assert len(objects["BackendTrafficPolicy"]["spec"]["rateLimit"]["local"]["rules"]) == 2


def test_a_client_of_a_fleet_that_its_request_starts_is_told_when_to_ask_again() -> None:
    to_zero = {**SCALED, **MONITORED, **OPENAI, "autoscaling": scaling(minReplicas=0)}
    woken, awake = (
        made(settings({**changes, "models.release": RELEASE, "gateway": GATEWAY})) for changes in (to_zero, OPENAI)
    )
    (override,) = woken["BackendTrafficPolicy"]["spec"]["responseOverride"]
    assert override["response"]["header"] == {"set": [{"name": "Retry-After", "value": "15"}]}
    assert crds.problems("gateway-helm", woken["BackendTrafficPolicy"]) == []
    assert "responseOverride" not in awake["BackendTrafficPolicy"]["spec"]


def test_the_definitions_know_every_field() -> None:
    for one in made(stack_with(clients={"team-a": {}})).values():
        assert crds.problems("gateway-helm", one) == []


def test_there_is_no_route_without_the_front_end_or_a_gateway() -> None:
    assert made(settings({"gateway": GATEWAY})) == {}
    assert made(settings({**OPENAI, "models.release": RELEASE})) == {}


def test_it_is_registered_beside_those_of_the_models() -> None:
    beside = list(openai_route.manifests(stack_with(clients={"team-a": {}}), DRAIN))

    def program() -> None:
        provider = k8s.Provider("kubernetes", kubeconfig="{}")
        ModelRoutes("routes", access(provider=provider), [], DRAIN, beside)

    with fresh_account(), contextlib.chdir(ROOT):
        recording = run(program, project=PROJECT, stack="staging", config={}, root=ROOT, clients=Clients("us-west-2"))
    names = [item.name for item in recording.registrations if item.name.startswith("routes-")]
    assert names == [
        "routes-openai-v1-securitypolicy",
        "routes-openai-v1-httproute",
        "routes-openai-v1-backendtrafficpolicy",
        "routes-refusal",
    ]
