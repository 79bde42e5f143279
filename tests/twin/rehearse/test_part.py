"""The serving objects of a state: those that a twin runs under load, and the reasons against it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import pytest

from spec.names import POD_RELEASE
from tests import snapshots
from twin.rehearse import part
from twin.rehearse.judgement import Finding
from twin.rehearse.part import NotMade, Part

TRITON = "kubernetes:apps/v1:Deployment::triton-blue-chart:triton/triton-blue"
SERVICE = "kubernetes:core/v1:Service::triton-blue-chart:triton/triton-blue"
SCALER = "kubernetes:keda.sh/v1alpha1:ScaledObject::triton-blue-scaling-scaled-object"
PROD = snapshots.resources("prod")
Objects = dict[str, dict[str, Any]]


@pytest.fixture
def prod() -> Objects:
    """Return a copy of all inputs that prod registers, by TYPE::NAME."""
    named = ((key.removesuffix(")").rpartition(" ("), one) for key, one in PROD.items())
    return {f"{type_}::{name}": copy.deepcopy(one["inputs"]) for (name, _, type_), one in named}


def pod(objects: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = objects[TRITON]["spec"]["template"]["spec"]
    return found


def step(key: str, action: str, *because: str) -> Finding:
    type_, _, name = key.partition("::")
    return Finding("none", action, type_, name, because, None, None)


def changed(before: Objects, after: Objects, *steps: Finding) -> Part:
    keys = before.keys() | after.keys()
    return part.of({key: (before.get(key, {}), after.get(key, {})) for key in keys}, steps)


GROWN = step(TRITON, "update", "spec.template.spec.volumes[0].emptyDir.sizeLimit")


def test_what_serves_in_prod_is_its_namespace_without_what_charts_define(prod: Objects) -> None:
    after = copy.deepcopy(prod)
    pod(after)["volumes"][0]["emptyDir"]["sizeLimit"] = "3Gi"
    found = changed(prod, after, GROWN)
    assert sorted(found.before) == [
        TRITON,
        "kubernetes:core/v1:Namespace::triton-namespace",
        SERVICE,
        f"{SERVICE}-headless",
        f"{SERVICE}-metrics",
        "kubernetes:core/v1:ServiceAccount::parity-account",
        "kubernetes:core/v1:ServiceAccount::triton-blue-chart:triton/triton-blue",
        "kubernetes:networking.k8s.io/v1:NetworkPolicy::parity-network",
        "kubernetes:networking.k8s.io/v1:NetworkPolicy::triton-blue-chart:triton/triton-blue",
        "kubernetes:policy/v1:PodDisruptionBudget::triton-blue-chart:triton/triton-blue",
    ]
    assert found.before == {key: prod[key] for key in found.before}
    assert found.after == {**found.before, TRITON: after[TRITON]}
    assert (found.changed, found.rolled) == ({TRITON}, {TRITON})
    assert [(one.name, one.pods) for one in (*found.servers, *found.servers_after)] == [("triton-blue", 3)] * 2
    assert found.others == {
        "kubernetes:apps/v1:Deployment": 1,
        "kubernetes:gateway.envoyproxy.io/v1alpha1:BackendTrafficPolicy": 7,
        "kubernetes:gateway.networking.k8s.io/v1:GRPCRoute": 7,
        "kubernetes:gateway.networking.k8s.io/v1:HTTPRoute": 7,
        "kubernetes:keda.sh/v1alpha1:ScaledObject": 1,
        "kubernetes:rbac.authorization.k8s.io/v1:Role": 2,
        "kubernetes:rbac.authorization.k8s.io/v1:RoleBinding": 2,
    }


def test_what_the_engine_takes_for_the_same_stays_as_the_state_has_it(prod: Objects) -> None:
    after = copy.deepcopy(prod)
    after[SERVICE]["spec"]["publishNotReadyAddresses"] = False
    after[TRITON]["spec"]["minReadySeconds"] = 20
    found = changed(prod, after, step(TRITON, "update", "spec.minReadySeconds"))
    assert found.after[SERVICE] is found.before[SERVICE]
    assert (found.changed, found.rolled) == ({TRITON}, frozenset())


def test_what_the_change_takes_away_and_brings_is_so_on_the_twin(prod: Objects) -> None:
    budget = next(key for key in prod if "PodDisruptionBudget::triton" in key)
    new = budget.replace("triton-blue-chart", "other")
    after = {**{key: one for key, one in prod.items() if key != budget}, new: prod[budget]}
    found = changed(prod, after, step(budget, "delete"), step(new, "create"))
    assert found.changed == {budget, new}
    assert budget not in found.after and new not in found.before


def test_the_class_of_its_pods_is_made_too_and_no_other(prod: Objects) -> None:
    spare = next(key for key in prod if "PriorityClass" in key)
    own = spare.replace("warm", "own")
    objects = {**prod, own: {**prod[spare], "metadata": {"name": "serving"}}}
    pod(objects)["priorityClassName"] = "serving"
    found = changed(objects, copy.deepcopy(objects), step(SERVICE, "update", "spec.type"))
    assert own in found.before and spare not in found.before


def test_the_pods_are_those_that_the_autoscaler_keeps_before_and_after(prod: Objects) -> None:
    after = copy.deepcopy(prod)
    after[SCALER]["spec"]["minReplicaCount"] = 1
    found = changed(prod, after, step(SCALER, "update", "spec.minReplicaCount"), GROWN)
    assert [one.pods for one in (*found.servers, *found.servers_after)] == [3, 1]


def refused(objects: Objects, *steps: Finding) -> str:
    with pytest.raises(NotMade) as caught:
        changed(objects, copy.deepcopy(objects), *(steps or (GROWN,)))
    return str(caught.value)


def test_where_nothing_of_it_changes_nothing_is_made(prod: Objects) -> None:
    other = next(key for key in prod if key.startswith("aws:eks/nodeGroup"))
    said = refused(prod, step(other, "replace", "instanceTypes"), step(SCALER, "update", "spec.maxReplicaCount"))
    assert said == "the change alters none of Triton's own objects in the state, which are all that is made here"


def test_what_cannot_be_had_here_is_said(prod: Objects) -> None:
    in_place, mounted, program, unasked, secret, nobody, asleep = (copy.deepcopy(prod) for _ in range(7))
    del in_place[TRITON]["spec"]["template"]["metadata"]["annotations"][POD_RELEASE]
    assert refused(in_place) == "triton-blue serves what the last rollout has put into the bucket, and not one release"
    del pod(mounted)["initContainers"]
    pod(program)["containers"][0]["command"] = ["python3"]
    for objects in (mounted, program):
        assert refused(objects) == (
            "the pods of triton-blue take their models from a volume, or by another program, and not from a bucket"
        )
    del unasked[SERVICE]
    assert refused(unasked) == "the state has no Service called triton-blue, at which its pods would be asked"
    pod(secret)["containers"][0]["env"].append({"name": "KEY", "value": part.SECRET_TEXT})
    assert refused(secret) == (
        "triton-blue-chart:triton/triton-blue (kubernetes:apps/v1:Deployment) has a secret among its inputs, "
        "which the engine does not tell"
    )
    nobody[TRITON] = {**nobody[TRITON], "spec": part.SECRET_TEXT}
    asleep[SCALER]["spec"]["minReplicaCount"] = 0
    asleep[TRITON]["spec"]["replicas"] = 0
    del asleep[SCALER]
    for objects in (nobody, asleep):
        assert refused(objects) == ("the state has no Deployment of Triton that keeps a pod, so that nobody would answer")
