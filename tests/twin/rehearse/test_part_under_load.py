"""A twin's objects for the serving part of a state, before and after the change."""

from __future__ import annotations

import copy
from typing import Any

from tests.twin.rehearse.test_part import GROWN, SCALER, SERVICE, TRITON, Objects, changed, pod, prod, step
from twin.rehearse import part_under_load
from twin.rehearse.part import Part
from twin.rehearse.stand_in import MARK, Models

__all__ = ["prod"]
MODELS = Models("s3://http://127.0.0.1:9/models/releases/abc", ("pipeline/versions/1",))


def deployments(found: Part) -> list[dict[str, Any]]:
    """Return Triton's Deployments, before and after."""
    both = [part_under_load.fitted(found, MODELS, is_after=is_after) for is_after in (False, True)]
    assert [set(objects) for objects in both] == [set(found.before), set(found.after)]
    return [dict(objects[TRITON]) for objects in both]


def marks(found: Part) -> list[str]:
    return [one["spec"]["template"]["metadata"]["annotations"][MARK] for one in deployments(found)]


def test_another_bucket_makes_the_pods_anew_though_one_release_stands_for_both(prod: Objects) -> None:
    after = copy.deepcopy(prod)
    pod(after)["containers"][0]["args"][0] = "--model-repository=s3://another/releases/1"
    found = changed(prod, after, step(TRITON, "update", "spec.template.spec.containers[0].args[0]"))
    assert marks(found) == ["before", "after"]


def test_a_deployment_whose_template_stays_keeps_its_pods(prod: Objects) -> None:
    after = copy.deepcopy(prod)
    after[TRITON]["spec"]["minReadySeconds"] = 20
    before, then = deployments(changed(prod, after, step(TRITON, "update", "spec.minReadySeconds")))
    assert before["spec"]["template"] == then["spec"]["template"]
    assert (before["spec"]["minReadySeconds"], then["spec"]["minReadySeconds"]) == (10, 20)


def test_a_service_alone_leaves_the_deployment_as_it_is(prod: Objects) -> None:
    after = copy.deepcopy(prod)
    after[SERVICE]["spec"]["type"] = "NodePort"
    before, then = deployments(changed(prod, after, step(SERVICE, "update", "spec.type")))
    assert before == then


def test_pods_are_as_many_as_are_kept_and_no_more_than_this_machine_runs(prod: Objects) -> None:
    after = copy.deepcopy(prod)
    prod[SCALER]["spec"]["minReplicaCount"], after[SCALER]["spec"]["minReplicaCount"] = 8, 2
    found = changed(prod, after, step(SCALER, "update", "spec.minReplicaCount"), GROWN)
    assert [one["spec"]["replicas"] for one in deployments(found)] == [part_under_load.MOST, 2]
