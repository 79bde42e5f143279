"""Who owns a Deployment's number of pods, on a real API server: with a new autoscaler a stack keeps the pods that it has."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from rich.console import Console

from spec.settings import Settings
from spec.settings.source import load
from twin.cluster import control_plane
from twin.cluster.kube_api import KubeClient
from twin.commands import fixed_pods
from twin.engine import stack_files
from twin.host import processes, tools
from twin.host.home import TwinHome
from twin.plugins import kubeconfig
from twin.plugins.errors import PluginError
from twin.plugins.kube_objects import KubeObjects
from twin.plugins.provider import Resource
from twin.plugins.server import EngineLog

# The first to ask for the tools of the control plane may have to build them.
pytestmark = pytest.mark.timeout(1800)
DEPLOYMENT = Resource("urn", "kubernetes:apps/v1:Deployment", "triton", "default/triton")
LEFT_TO_AN_AUTOSCALER = replace(DEPLOYMENT, ignored=("spec.replicas",))
PATH = "/apis/apps/v1/namespaces/default/deployments/triton"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeClient]:
    """A real control plane of its own."""
    home = TwinHome(tmp_path_factory.mktemp("cluster") / "home")
    console = Console(stderr=True)
    try:
        control_plane.ensure(home, tools.ensure(["control-plane"], console), console.print)
        yield kubeconfig.connect(yaml.safe_load(home.kubeconfig.read_text()))
    finally:
        processes.stop_all(home, seconds=20)


@pytest.fixture
def objects(client: KubeClient) -> Iterator[KubeObjects]:
    """The provider's operations, with a Deployment of 4 pods that they have made."""
    found = KubeObjects(client, EngineLog("127.0.0.1:1"), threading.Event(), namespace="default")
    found.create(DEPLOYMENT, manifest(replicas=4), 0)
    yield found
    client.delete(PATH)


def manifest(**spec: Any) -> dict[str, Any]:
    labels = {"app": "triton"}
    container = {"name": "triton", "image": "example.com/triton"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        # There is no node here: nobody waits for the pods.
        "metadata": {"name": "triton", "namespace": "default", "annotations": {"pulumi.com/skipAwait": "true"}},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            **spec,
        },
    }


def scaled_by_an_autoscaler(client: KubeClient, pods: int) -> None:
    # KEDA and the HorizontalPodAutoscaler write this part of the object alone, as managers of their own.
    client.patch(f"{PATH}/scale", {"spec": {"replicas": pods}}, "merge")


def pods_of(client: KubeClient) -> int:
    return cast(int, client.get(PATH)["spec"]["replicas"])


def test_a_number_that_is_no_longer_applied_falls_to_one(client: KubeClient, objects: KubeObjects) -> None:
    objects.update(DEPLOYMENT, {}, manifest(), 0)
    assert pods_of(client) == 1, "or nothing here needs ignoreChanges"


def test_a_stack_that_gets_an_autoscaler_keeps_its_pods(client: KubeClient, objects: KubeObjects) -> None:
    # The engine gives the last inputs of what a program ignores.
    objects.update(LEFT_TO_AN_AUTOSCALER, {}, manifest(replicas=4), 0)
    assert pods_of(client) == 4


def test_what_an_autoscaler_has_set_stays_and_is_no_conflict(client: KubeClient, objects: KubeObjects) -> None:
    scaled_by_an_autoscaler(client, 6)
    objects.preview_update(LEFT_TO_AN_AUTOSCALER, {}, manifest(replicas=4, paused=True))
    objects.update(LEFT_TO_AN_AUTOSCALER, {}, manifest(replicas=4, paused=True), 0)
    assert pods_of(client) == 6
    assert client.get(PATH)["spec"]["paused"] is True


def test_a_stack_without_its_autoscaler_takes_the_number_back_only_where_both_agree(
    client: KubeClient, objects: KubeObjects
) -> None:
    scaled_by_an_autoscaler(client, 6)
    with pytest.raises(PluginError, match=r"conflict with .*\.spec\.replicas.*#scaled-by-hand"):
        objects.update(DEPLOYMENT, {}, manifest(replicas=4), 0)
    scaled_by_an_autoscaler(client, 4)
    objects.update(DEPLOYMENT, {}, manifest(replicas=4), 0)
    assert pods_of(client) == 4


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
    stack = stack_files.AUTOSCALED_STACK
    return load(stack_files.config(home, stack), stack)


def test_an_autoscaler_that_an_interrupted_up_has_handed_back_is_the_stacks_again(
    client: KubeClient, tmp_path: Path
) -> None:
    home = TwinHome(tmp_path / "home")
    client.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "triton"}})
    deployment = manifest(replicas=4)
    deployment["metadata"]["namespace"] = "triton"
    client.create("/apis/apps/v1/namespaces/triton/deployments", deployment)
    objects = KubeObjects(client, EngineLog("127.0.0.1:1"), threading.Event(), namespace="triton")
    objects.create(AUTOSCALER, autoscaler(5), 0)

    fixed_pods.hand_back(client, of_the_twin(home, autoscaling=False), lambda text: None)  # and killed
    with pytest.raises(PluginError, match=r"(?s)conflicts with .*\.spec\.maxReplicas"):
        objects.update(AUTOSCALER, autoscaler(5), autoscaler(6), 0)

    assert fixed_pods.take_back(client, of_the_twin(home, autoscaling=True), lambda text: None)
    objects.create(AUTOSCALER, autoscaler(6), 0)
    objects.update(AUTOSCALER, autoscaler(6), autoscaler(5), 0)
    bounds = client.get(AUTOSCALER_PATH)["spec"]
    assert (bounds["minReplicas"], bounds["maxReplicas"]) == (3, 5)
    assert not fixed_pods.take_back(client, of_the_twin(home, autoscaling=True), lambda text: None)
