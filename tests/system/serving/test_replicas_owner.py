"""The owner of a Deployment's number of pods, on a real API server: a new autoscaler keeps the present number."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from spec.settings import Settings
from spec.settings.source import load
from twin.cluster.kube_api import KubeClient
from twin.commands import fixed_pods
from twin.engine import stack_files
from twin.host.home import TwinHome
from twin.plugins.errors import PluginError
from twin.plugins.kube_objects import KubeObjects
from twin.plugins.provider import Resource
from twin.plugins.server import EngineLog

# The first test that needs the control plane's tools may have to build them.
pytestmark = pytest.mark.timeout(1800)
DEPLOYMENT = Resource("urn", "kubernetes:apps/v1:Deployment", "triton", "default/triton")
LEFT_TO_AN_AUTOSCALER = replace(DEPLOYMENT, ignored=("spec.replicas",))
PATH = "/apis/apps/v1/namespaces/default/deployments/triton"


@pytest.fixture
def objects(api_server: KubeClient) -> Iterator[KubeObjects]:
    """Return the provider's operations, after they created a Deployment of 4 pods."""
    found = KubeObjects(api_server, EngineLog("127.0.0.1:1"), threading.Event(), namespace="default")
    found.create(DEPLOYMENT, manifest(replicas=4), 0)
    yield found
    api_server.delete(PATH)


def manifest(**spec: Any) -> dict[str, Any]:
    labels = {"app": "triton"}
    container = {"name": "triton", "image": "example.com/triton"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        # There is no node here, so the provider must not wait for the pods.
        "metadata": {"name": "triton", "namespace": "default", "annotations": {"pulumi.com/skipAwait": "true"}},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            **spec,
        },
    }


def scaled_by_an_autoscaler(api_server: KubeClient, pods: int) -> None:
    # KEDA and the HorizontalPodAutoscaler write only this part of the object, as separate field managers.
    api_server.patch(f"{PATH}/scale", {"spec": {"replicas": pods}}, "merge")


def pods_of(api_server: KubeClient) -> int:
    return cast(int, api_server.get(PATH)["spec"]["replicas"])


def test_a_number_that_is_no_longer_applied_falls_to_one(api_server: KubeClient, objects: KubeObjects) -> None:
    objects.update(DEPLOYMENT, {}, manifest(), 0)
    assert pods_of(api_server) == 1, "or nothing here needs ignoreChanges"


def test_a_stack_that_gets_an_autoscaler_keeps_its_pods(api_server: KubeClient, objects: KubeObjects) -> None:
    # For ignored fields of a program, the engine sends the last inputs.
    objects.update(LEFT_TO_AN_AUTOSCALER, {}, manifest(replicas=4), 0)
    assert pods_of(api_server) == 4


def test_what_an_autoscaler_has_set_stays_and_is_no_conflict(api_server: KubeClient, objects: KubeObjects) -> None:
    scaled_by_an_autoscaler(api_server, 6)
    objects.preview_update(LEFT_TO_AN_AUTOSCALER, {}, manifest(replicas=4, paused=True))
    objects.update(LEFT_TO_AN_AUTOSCALER, {}, manifest(replicas=4, paused=True), 0)
    assert pods_of(api_server) == 6
    assert api_server.get(PATH)["spec"]["paused"] is True


def test_a_stack_without_its_autoscaler_takes_the_number_back_only_where_both_agree(
    api_server: KubeClient, objects: KubeObjects
) -> None:
    scaled_by_an_autoscaler(api_server, 6)
    with pytest.raises(PluginError, match=r"conflict with .*\.spec\.replicas.*#scaled-by-hand"):
        objects.update(DEPLOYMENT, {}, manifest(replicas=4), 0)
    scaled_by_an_autoscaler(api_server, 4)
    objects.update(DEPLOYMENT, {}, manifest(replicas=4), 0)
    assert pods_of(api_server) == 4


AUTOSCALER = Resource("urn", "kubernetes:autoscaling/v2:HorizontalPodAutoscaler", "triton", "triton/triton")
AUTOSCALER_PATH = "/apis/autoscaling/v2/namespaces/triton/horizontalpodautoscalers/triton"


def autoscaler(most: int) -> dict[str, Any]:
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "triton", "namespace": "triton", "annotations": {"pulumi.com/skipAwait": "true"}},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "triton"},
            "minReplicas": 3,
            "maxReplicas": most,
            "metrics": [metric],
        },
    }


def of_the_twin(home: TwinHome, *, autoscaling: bool) -> Settings:
    stack_files.ask_for_autoscaling(home, autoscaling)
    stack = stack_files.STACK
    return load(stack_files.config(home, stack), stack)


def test_an_autoscaler_that_an_interrupted_up_has_handed_back_is_the_stacks_again(
    api_server: KubeClient, tmp_path: Path
) -> None:
    home = TwinHome(tmp_path / "home")
    api_server.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "triton"}})
    deployment = manifest(replicas=4)
    deployment["metadata"]["namespace"] = "triton"
    api_server.create("/apis/apps/v1/namespaces/triton/deployments", deployment)
    objects = KubeObjects(api_server, EngineLog("127.0.0.1:1"), threading.Event(), namespace="triton")
    objects.create(AUTOSCALER, autoscaler(5), 0)

    fixed_pods.hand_back(api_server, of_the_twin(home, autoscaling=False), lambda text: None)  # and killed
    with pytest.raises(PluginError, match=r"(?s)conflicts with .*\.spec\.maxReplicas"):
        objects.update(AUTOSCALER, autoscaler(5), autoscaler(6), 0)

    made = [{"type": AUTOSCALER.type, "id": AUTOSCALER.id}]
    assert not fixed_pods.is_gone(api_server, made)
    fixed_pods.take_back(api_server, of_the_twin(home, autoscaling=True), lambda text: None)
    assert fixed_pods.is_gone(api_server, made)
    objects.create(AUTOSCALER, autoscaler(6), 0)
    objects.update(AUTOSCALER, autoscaler(6), autoscaler(5), 0)
    bounds = api_server.get(AUTOSCALER_PATH)["spec"]
    assert (bounds["minReplicas"], bounds["maxReplicas"]) == (3, 5)
    fixed_pods.take_back(api_server, of_the_twin(home, autoscaling=True), lambda text: None)
    assert not fixed_pods.is_gone(api_server, made)
