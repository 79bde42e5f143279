"""Objects that scale pods and nodes, on a real API server: schemas, defaults, and the CEL rules that no schema contains."""

from __future__ import annotations

import time
from typing import Any

import pytest
from kubernetes import client, config, dynamic
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic.exceptions import ResourceNotFoundError

from infra.platform.karpenter_pools import node_class_spec, node_pool_spec
from spec.scaling.manifests import autoscaler_spec, scaled_object_spec
from tests.infra.test_karpenter_pools import CLUSTER, POOLS, pool
from tests.spec.stack_config import settings
from tests.spec.test_stack_mistakes_autoscaling import CLASSIFY, FLOOR, HPA, PROMETHEUS, SCALED, scaling
from twin.charts.registry import CHARTS
from twin.releases import go_module

# The first test that needs the control plane's tools may have to build them.
pytestmark = pytest.mark.timeout(1800)
_ESTABLISHED_SECONDS = 60


@pytest.fixture(scope="module")
def cluster(api_server_kubeconfig: str) -> dynamic.DynamicClient:
    """Return the client of an API server with the kinds of KEDA and Karpenter."""
    crds = [*go_module.definitions(CHARTS["keda"]), *go_module.definitions(CHARTS["karpenter-crd"])]
    api = config.new_client_from_config(api_server_kubeconfig)
    for crd in crds:
        _install(client.ApiextensionsV1Api(api), crd)
    found = dynamic.DynamicClient(api)
    for crd in crds:
        _until_discovered(found, crd)
    return found


def _install(api: client.ApiextensionsV1Api, crd: Any) -> None:
    api.create_custom_resource_definition(crd)
    deadline = time.monotonic() + _ESTABLISHED_SECONDS
    while True:
        status = api.read_custom_resource_definition(crd["metadata"]["name"]).status
        conditions = (status.conditions if status else None) or []
        if any(condition.type == "Established" and condition.status == "True" for condition in conditions):
            return
        assert time.monotonic() < deadline, f"{crd['metadata']['name']} was not established"
        time.sleep(0.1)


def _until_discovered(cluster: dynamic.DynamicClient, crd: Any) -> None:
    """Wait until the server lists an established kind among its resources, which takes a moment."""
    spec, deadline = crd["spec"], time.monotonic() + _ESTABLISHED_SECONDS
    (version,) = (version["name"] for version in spec["versions"] if version["storage"])
    while True:
        try:
            cluster.resources.get(api_version=f"{spec['group']}/{version}", kind=spec["names"]["kind"])
            return
        except ResourceNotFoundError:
            assert time.monotonic() < deadline, f"{crd['metadata']['name']} is not among the server's resources"
        time.sleep(0.1)


def accept(cluster: dynamic.DynamicClient, manifest: dict[str, Any], namespace: str | None = None) -> Any:
    """Return the object as the server would store it. Raises ApiException if the server refuses it or drops a part."""
    api = cluster.resources.get(api_version=manifest["apiVersion"], kind=manifest["kind"])
    options = {"dry_run": "All", "field_validation": "Strict"}
    return api.create(body=manifest, **({"namespace": namespace} if namespace else {}), **options).to_dict()


def manifest(api_version: str, kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def scaled(**keys: Any) -> dict[str, Any]:
    read = settings({**SCALED, "autoscaling": scaling(**keys)})
    return manifest("keda.sh/v1alpha1", "ScaledObject", "triton", scaled_object_spec(read, PROMETHEUS))


@pytest.mark.parametrize("keys", [{}, {"cronFloor": FLOOR}])
def test_a_scaled_object_is_accepted_as_it_is(cluster: dynamic.DynamicClient, keys: dict[str, Any]) -> None:
    made = scaled(**keys)
    assert accept(cluster, made, "default")["spec"] == made["spec"]


def test_a_scaled_object_whose_bounds_contradict_each_other_is_refused(cluster: dynamic.DynamicClient) -> None:
    made = scaled()
    made["spec"]["minReplicaCount"] = 3
    with pytest.raises(ApiException, match="minReplicaCount"):
        accept(cluster, made, "default")


def test_the_autoscaler_of_two_models_is_accepted_as_it_is(cluster: dynamic.DynamicClient) -> None:
    read = settings({**HPA, "models.serving": {"classify": CLASSIFY, "embed.v2": {**CLASSIFY, "instances": 2}}})
    spec = autoscaler_spec(read)
    stored = accept(cluster, manifest("autoscaling/v2", "HorizontalPodAutoscaler", "triton", spec), "default")["spec"]
    stored["behavior"]["scaleDown"].pop("selectPolicy")  # the default, as the server sets it
    assert stored == spec


@pytest.mark.parametrize("changes", POOLS.values(), ids=POOLS)
def test_karpenters_objects_are_accepted(cluster: dynamic.DynamicClient, changes: dict[str, Any]) -> None:
    of = pool(**changes)
    assert accept(
        cluster, manifest("karpenter.k8s.aws/v1", "EC2NodeClass", of.name, node_class_spec(of, CLUSTER, "profile"))
    )
    assert accept(cluster, manifest("karpenter.sh/v1", "NodePool", of.name, node_pool_spec(of)))


def test_a_node_class_with_two_identities_is_refused(cluster: dynamic.DynamicClient) -> None:
    """By a CEL rule, so the test also proves checks that a schema lacks."""
    spec = {**node_class_spec(pool(), CLUSTER, "profile"), "role": "nodes"}
    with pytest.raises(ApiException, match="instanceProfile"):
        accept(cluster, manifest("karpenter.k8s.aws/v1", "EC2NodeClass", "g5", spec))
