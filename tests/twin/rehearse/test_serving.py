"""The serving objects of an exported state, and the pods that each Triton Deployment keeps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spec.names import POD_RELEASE
from tests import snapshots
from tests.twin.rehearse.test_state import ENCRYPTED, NETWORK, read, resource
from twin.rehearse import serving

TYPE = "kubernetes:apps/v1:Deployment"
PROD = snapshots.resources("prod")
SCALED, SCALED_BY_METRICS = "kubernetes:keda.sh/v1alpha1:ScaledObject", "kubernetes:autoscaling/v2:HorizontalPodAutoscaler"


@pytest.fixture
def triton() -> dict[str, Any]:
    """Return a copy of prod's Triton Deployment."""
    (found,) = [
        one["inputs"]
        for key, one in PROD.items()
        if key.endswith(f"({TYPE})") and one["inputs"]["metadata"]["name"] == "triton-blue"
    ]
    copied: dict[str, Any] = json.loads(json.dumps(found))
    copied["metadata"]["name"] = "triton"
    return copied


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


def test_a_server_says_what_it_serves_and_where_from(tmp_path: Path, triton: dict[str, Any]) -> None:
    (found,) = serving.servers(read(tmp_path, NETWORK, resource(TYPE, "triton", triton)))
    release = triton["spec"]["template"]["metadata"]["annotations"][POD_RELEASE]
    assert (found.name, found.release, found.gpus, found.reads_bucket) == ("triton", release, "1 nvidia.com/gpu", True)


def test_a_server_is_read_with_what_it_does_not_say(tmp_path: Path, triton: dict[str, Any]) -> None:
    del triton["spec"]["template"]["metadata"]["annotations"][POD_RELEASE]
    (container,) = triton["spec"]["template"]["spec"]["containers"]
    container["resources"]["limits"].pop("nvidia.com/gpu")
    container["args"][0] = "--model-repository=/models/current"
    del triton["spec"]["template"]["spec"]["initContainers"]
    (found,) = serving.servers(read(tmp_path, NETWORK, resource(TYPE, "triton", triton)))
    assert (found.release, found.gpus, found.reads_bucket) == (None, None, False)


def test_what_is_encrypted_or_another_ones_serves_nobody(tmp_path: Path) -> None:
    hidden = {"metadata": ENCRYPTED, "spec": {"template": ENCRYPTED}}
    other = {"metadata": {"namespace": "triton", "name": "worker"}, "spec": {"template": {"spec": {"containers": 3}}}}
    for inputs in (hidden, other):
        assert serving.servers(read(tmp_path, NETWORK, resource(TYPE, "one", inputs))) == []
