"""Who serves in an exported state, and how many pods each Deployment of Triton keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.twin.rehearse.test_not_measured import TYPE, triton
from tests.twin.rehearse.test_state import ENCRYPTED, NETWORK, read, resource
from twin.rehearse import serving

__all__ = ["triton"]
SCALED, SCALED_BY_METRICS = "kubernetes:keda.sh/v1alpha1:ScaledObject", "kubernetes:autoscaling/v2:HorizontalPodAutoscaler"


def scaled(least: Any, *, namespace: str = "triton", name: str = "triton") -> dict[str, Any]:
    spec = {"minReplicaCount": least, "scaleTargetRef": {"name": name}}
    return {"metadata": {"namespace": namespace}, "spec": spec}


@pytest.mark.parametrize(
    ("replicas", "scaler", "pods"),
    [
        (None, None, 1),
        (2, None, 2),
        (0, None, 0),
        (None, scaled(3), 3),
        (None, scaled(0), 1),
        (None, scaled(3, name="another"), 1),
        (None, scaled(3, namespace="serving"), 1),
        (None, scaled(ENCRYPTED), 1),
        (1, scaled(3), 3),
    ],
)
def test_a_deployment_keeps_the_pods_that_it_says_or_that_its_autoscaler_does(
    tmp_path: Path, triton: dict[str, Any], replicas: int | None, scaler: dict[str, Any] | None, pods: int
) -> None:
    triton["spec"].pop("replicas", None)
    if replicas is not None:
        triton["spec"]["replicas"] = replicas
    scalers = [resource(SCALED, "scaling", scaler)] if scaler is not None else []
    found = read(tmp_path, NETWORK, resource(TYPE, "triton", triton), *scalers)
    assert [one.pods for one in serving.servers(found)] == [pods]
    assert serving.least_pods(found) == max(1, pods)


def test_a_horizontal_pod_autoscaler_has_its_own_key(tmp_path: Path, triton: dict[str, Any]) -> None:
    triton["spec"].pop("replicas", None)
    spec = {"minReplicas": 4, "scaleTargetRef": {"name": "triton"}}
    scaler = resource(SCALED_BY_METRICS, "scaling", {"metadata": {"namespace": "triton"}, "spec": spec})
    assert serving.least_pods(read(tmp_path, NETWORK, resource(TYPE, "triton", triton), scaler)) == 4


def test_of_several_deployments_the_one_with_the_fewest_pods_counts(tmp_path: Path, triton: dict[str, Any]) -> None:
    other = {**triton, "metadata": {**triton["metadata"], "name": "triton-other"}, "spec": {**triton["spec"], "replicas": 5}}
    triton["spec"]["replicas"] = 2
    states = [resource(TYPE, "triton", triton), resource(TYPE, "other", other)]
    assert serving.least_pods(read(tmp_path, NETWORK, *states)) == 2
    assert serving.least_pods(read(tmp_path, NETWORK)) == 1


def test_a_deployment_without_pods_does_not_count_beside_one_with_some(tmp_path: Path, triton: dict[str, Any]) -> None:
    idle = {**triton, "metadata": {**triton["metadata"], "name": "triton-green"}, "spec": {**triton["spec"], "replicas": 0}}
    triton["spec"]["replicas"] = 3
    states = [resource(TYPE, "triton", triton), resource(TYPE, "green", idle)]
    assert serving.least_pods(read(tmp_path, NETWORK, *states)) == 3
