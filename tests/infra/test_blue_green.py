"""Two releases on two Deployments in the program: each model's Services and weights, and the bucket's readers."""

from typing import Any

import pytest

from infra.serving import routed_model, routes
from infra.serving.triton import FleetArgs, reader_accounts, values
from infra.serving.triton_values import Drain
from infra.serving.worker import asked_of
from spec.settings import serving_digest
from tests import crds
from tests.charts import rendering
from tests.infra.access import stack
from tests.spec.stack_config import REMOVED, settings
from tests.spec.test_blue_green import BLUE_GREEN, NEXT, WITH_CANDIDATE
from tests.spec.test_stack_mistakes_autoscaling import CLASSIFY, SCALED, scaling

BOTH = ["triton-blue", "triton-green"]


def shares(changes: dict[str, Any]) -> dict[str, dict[str, int | None]]:
    """Return each model's Services for gRPC requests, with their weights."""
    made = settings(changes)
    assert made.gateway is not None
    routed = routed_model.routed(made.models, made.gateway, made.each_fleet)
    rules = {model.name: routes.grpc_route_spec(model)["rules"][0] for model in routed}
    return {name: {one["name"]: one.get("weight") for one in rule["backendRefs"]} for name, rule in rules.items()}


@pytest.mark.parametrize(
    ("changes", "weights"),
    [
        (BLUE_GREEN, {"triton-blue": None}),
        ({**BLUE_GREEN, "models.slot": "green"}, {"triton-green": None}),
        (WITH_CANDIDATE, {"triton-blue": 95, "triton-green": 5}),
        ({**WITH_CANDIDATE, "models.slot": "green"}, {"triton-green": 95, "triton-blue": 5}),
        ({**WITH_CANDIDATE, "models.candidate.percent": 0}, {"triton-blue": 100, "triton-green": 0}),
        ({**WITH_CANDIDATE, "models.candidate.percent": 100}, {"triton-blue": 0, "triton-green": 100}),
    ],
)
def test_a_model_of_both_is_shared_by_the_candidates_part(changes: dict[str, Any], weights: dict[str, int | None]) -> None:
    assert shares(changes)["classify"] == weights


@pytest.mark.parametrize(("slot", "other"), [("blue", "triton-green"), ("green", "triton-blue")])
def test_a_candidate_that_nobody_asks_gets_copies_by_every_rule_of_the_models_of_both(slot: str, other: str) -> None:
    copied = {"models.slot": slot, "models.candidate.percent": 0, "models.candidate.mirrorPercent": 20}
    made = settings({**WITH_CANDIDATE, **copied})
    assert made.gateway is not None
    found: dict[str, list[Any]] = {}
    for model in routed_model.routed(made.models, made.gateway, made.each_fleet):
        for manifest in routes.manifests([model], Drain(30, 60)):
            assert crds.problems("gateway-helm", manifest) == []
            for rule in manifest["spec"].get("rules", []):
                filters = [one["requestMirror"] for one in rule.get("filters", []) if one["type"] == "RequestMirror"]
                found.setdefault(f"{manifest['kind']} {model.name}", []).append(filters)
    http, grpc = ([{"backendRef": {"name": other, "port": port}, "percent": 20}] for port in (8000, 8001))
    assert found == {
        "HTTPRoute classify": [http],
        "GRPCRoute classify": [grpc],
        "HTTPRoute detect": [[]],
        "GRPCRoute detect": [[]],
    }


def test_models_that_one_of_them_has_alone_are_not_shared() -> None:
    found = shares({**WITH_CANDIDATE, "models.candidate.percent": 100})
    assert sorted(found) == ["classify", "detect"], "a model that comes has a route with its release"
    assert found["detect"] == {"triton-blue": None}


@pytest.mark.parametrize("slot", ["blue", "green"])
def test_the_pods_of_a_slot_serve_their_release_with_all_its_models(slot: str) -> None:
    made = settings({**WITH_CANDIDATE, "models.slot": "green" if slot == "blue" else "blue"})
    fleet = made.each_fleet[1]
    objects = rendering.render_values(values(stack(), FleetArgs.of(fleet, made)), environment="staging", name=fleet.release)
    deployment = rendering.only(objects, "Deployment")
    assert deployment["metadata"]["name"] == f"triton-{slot}"
    pod = deployment["spec"]["template"]
    assert pod["metadata"]["annotations"]["triton-eks/release"] == NEXT["id"]
    assert not any("--load-model" in arg for arg in pod["spec"]["containers"][0]["args"])


@pytest.mark.parametrize("pods", [1, 3])
def test_a_candidate_changes_no_value_of_the_pods_that_serve_on_nodes_without_gpus(pods: int) -> None:
    """A changed value replaces the pods while they are compared with the candidate's pods."""
    serving = {"classify": {key: value for key, value in CLASSIFY.items() if key != "gpuMemoryMiB"} | {"device": "cpu"}}
    scaled = {**SCALED, "autoscaling": scaling(minReplicas=1, maxReplicas=4), "models.serving": serving}
    on_cpus = {"instanceTypes": ["m7i.2xlarge"], "max": 20, "diskGiB": 100}
    cpu = {"triton.pool": "cpu", "triton.gpus": 0, "nodes.cpu": on_cpus}
    changes = {**scaled, **cpu, "triton.rollout": "blue-green", "gateway": BLUE_GREEN["gateway"], "gpu": REMOVED}
    changes["nodes.autoscaler"] = "karpenter"
    digest = serving_digest(settings(changes))
    changes["models.release"] = {**BLUE_GREEN["models.release"], "serving": digest}
    candidate = {"release": {**NEXT, "serving": digest}, "pods": pods}
    before, after = (
        values(stack(), FleetArgs.of(each.each_fleet[0], each))
        for each in map(settings, (changes, {**changes, "models.candidate": candidate}))
    )
    assert before == after


@pytest.mark.parametrize(
    ("percent", "first"), [(0, "triton-blue"), (50, "triton-blue"), (51, "triton-green"), (100, "triton-green")]
)
def test_workers_ask_the_one_with_the_larger_part_first(percent: int, first: str) -> None:
    asked = asked_of(settings({**WITH_CANDIDATE, "models.candidate.percent": percent}).each_fleet)
    assert [len(urls) for urls in asked.values()] == [2, 1, 1]
    assert asked["classify"][0] == f"dns:///{first}-headless.triton.svc.cluster.local:8001"


@pytest.mark.parametrize("changes", [BLUE_GREEN, WITH_CANDIDATE])
def test_both_may_read_the_bucket_before_either_is_there(changes: dict[str, Any]) -> None:
    assert reader_accounts(settings(changes)) == BOTH
