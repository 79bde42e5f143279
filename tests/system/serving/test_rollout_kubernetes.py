"""`KubernetesFleet` on a real API server: its list of pods, and the ConfigMap that clients watch."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client, config

from modelctl.rollout.fleet import FleetAbsent, FleetError, ServedVersion
from modelctl.rollout.kubernetes_fleet import KubernetesFleet
from spec.names import SERVED_VERSIONS

SLICE_LABELS = {"kubernetes.io/service-name": "triton-headless"}


@pytest.fixture
def core(api_server_kubeconfig: str, monkeypatch: pytest.MonkeyPatch) -> client.CoreV1Api:
    monkeypatch.setenv("KUBECONFIG", api_server_kubeconfig)
    config.load_kube_config(config_file=api_server_kubeconfig)
    return client.CoreV1Api()


@pytest.fixture
def namespace(core: client.CoreV1Api, request: pytest.FixtureRequest) -> Iterator[str]:
    """Return a namespace for one test."""
    name = request.node.name.replace("_", "-")[:50].rstrip("-")
    core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=name)))
    yield name
    core.delete_namespace(name)


def _endpoint(name: str, uid: str, address: str, **conditions: bool) -> dict[str, Any]:
    target = {"kind": "Pod", "name": name, "uid": uid}
    return {"addresses": [address], "conditions": {"ready": True, **conditions}, "targetRef": target}


def _slice(namespace: str, name: str, *endpoints: dict[str, Any]) -> None:
    body = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": name, "labels": SLICE_LABELS},
        "addressType": "IPv4",
        "ports": [{"name": "grpc", "port": 8001}, {"name": "http", "port": 8000}],
        "endpoints": list(endpoints),
    }
    client.DiscoveryV1Api().create_namespaced_endpoint_slice(namespace, body)


def test_pods_of_all_slices_are_found_ready_or_not_but_not_those_that_end(namespace: str) -> None:
    _slice(
        namespace,
        "one",
        _endpoint("triton-b", "uid-b", "10.244.1.2"),
        _endpoint("triton-c", "uid-c", "10.244.1.3", ready=False),
        _endpoint("triton-d", "uid-d", "10.244.1.4", terminating=True, ready=False),
    )
    _slice(namespace, "two", _endpoint("triton-a", "uid-a", "10.20.1.9"))

    pods = KubernetesFleet(namespace).pods()

    assert [(pod.name, pod.http, pod.metrics, pod.uid) for pod in pods] == [
        ("triton-a", "http://triton-a:8000", "http://triton-a:8002", "uid-a"),
        ("triton-b", "http://triton-b:8000", "http://triton-b:8002", "uid-b"),
        ("triton-c", "http://triton-c:8000", "http://triton-c:8002", "uid-c"),
    ]


def test_a_service_without_slices_has_no_pods(namespace: str) -> None:
    assert KubernetesFleet(namespace).pods() == []


def test_served_versions_are_told_at_once_and_those_of_other_models_stay(namespace: str, core: client.CoreV1Api) -> None:
    fleet = KubernetesFleet(namespace)
    assert fleet.served() == {}

    fleet.serve({"a": ServedVersion(stable=1), "b": ServedVersion(stable=3), "c": ServedVersion(stable=9)})
    fleet.serve({"a": ServedVersion(stable=1, canary=2, percent=5), "c": None})

    assert core.read_namespaced_config_map(SERVED_VERSIONS, namespace).data == {
        "a": '{"stable":1,"canary":2,"percent":5}',
        "b": '{"stable":3}',
    }
    assert fleet.served() == {"a": ServedVersion(stable=1, canary=2, percent=5), "b": ServedVersion(stable=3)}


def test_telling_what_is_told_already_wakes_no_watcher(namespace: str, core: client.CoreV1Api) -> None:
    fleet = KubernetesFleet(namespace)
    fleet.serve({"a": ServedVersion(stable=1)})
    before = core.read_namespaced_config_map(SERVED_VERSIONS, namespace).metadata.resource_version
    fleet.serve({"a": ServedVersion(stable=1)})
    assert core.read_namespaced_config_map(SERVED_VERSIONS, namespace).metadata.resource_version == before


def test_updates_at_the_same_time_lose_nothing(namespace: str) -> None:
    fleet = KubernetesFleet(namespace)
    fleet.serve({"z": ServedVersion(stable=1)})
    models = [f"model-{number}" for number in range(3)]
    threads = [
        threading.Thread(target=KubernetesFleet(namespace).serve, args=({model: ServedVersion(stable=7)},))
        for model in models
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(fleet.served()) == [*models, "z"]


def test_values_that_nobody_could_follow_are_named(namespace: str, core: client.CoreV1Api) -> None:
    body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name=SERVED_VERSIONS), data={"a": "2"})
    core.create_namespaced_config_map(namespace, body)
    with pytest.raises(FleetError, match=f"^namespace {namespace}: triton-served-versions: a: '2' is no served version"):
        KubernetesFleet(namespace).served()


def test_without_the_namespace_there_is_no_place_to_tell(core: client.CoreV1Api) -> None:
    fleet = KubernetesFleet("not-there")
    assert fleet.served() == {}
    with pytest.raises(FleetAbsent) as failure:
        fleet.serve({"a": ServedVersion(stable=1)})
    assert str(failure.value) == "there is no namespace not-there yet"
