"""The chart's objects on a real API server, in a namespace that enforces the restricted standard."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from modelctl.plan_builds.job import Build, job
from spec.settings.gpu import GpuPool
from tests.charts import rendering
from tests.charts.test_extension_points import EVERYTHING
from tests.charts.test_fetched_release import following
from tests.spec.stack_config import DIGEST, ECR, settings
from twin.cluster.kube_api import KubeClient
from twin.cluster.kube_errors import ApiError

ENFORCED = {"pod-security.kubernetes.io/enforce": "restricted"}


@pytest.fixture(scope="module")
def client(api_server: KubeClient) -> KubeClient:
    """Return the client of an API server with the namespace `triton`."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "triton", "labels": ENFORCED}}
    api_server.create("/api/v1/namespaces", namespace)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "triton", "namespace": "triton"}}
    api_server.create("/api/v1/namespaces/triton/serviceaccounts", account)
    return api_server


def _pod(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "triton"}, "spec": spec}


def test_the_pod_with_all_that_can_be_added_is_admitted(client: KubeClient) -> None:
    objects = rendering.render(EVERYTHING, environment="prod")
    template = rendering.only(objects, "Deployment")["spec"]["template"]
    made = client.create("/api/v1/namespaces/triton/pods", _pod("everything", template["spec"]))
    assert [container["name"] for container in made["spec"]["containers"]] == ["triton", "helper"]
    assert [container["name"] for container in made["spec"]["initContainers"]] == ["prepare", "watch"]
    assert made["status"]["qosClass"] == "Burstable", "without a CPU limit"
    config = client.create("/api/v1/namespaces/triton/configmaps", rendering.only(objects, "ConfigMap", "labels"))
    assert config["data"] == {"mine": "1"}
    deployment = client.create("/apis/apps/v1/namespaces/triton/deployments", rendering.only(objects, "Deployment"))
    assert deployment["spec"]["template"]["metadata"]["labels"]["team"] == "vision"


def test_the_pod_whose_sidecar_fetches_releases_is_admitted(client: KubeClient) -> None:
    template = rendering.deployment(following(), environment="prod")["spec"]["template"]
    made = client.create("/api/v1/namespaces/triton/pods?fieldValidation=Strict", _pod("following", template["spec"]))
    assert [(one["name"], one.get("restartPolicy")) for one in made["spec"]["initContainers"]] == [
        ("fetch", None),
        ("follow", "Always"),
    ]
    assert made["status"]["qosClass"] == "Burstable", "without a CPU limit"


def test_what_the_chart_refuses_the_namespace_would_refuse_too(client: KubeClient) -> None:
    spec = copy.deepcopy(rendering.pod(EVERYTHING))
    spec["volumes"].append({"name": "host", "hostPath": {"path": "/"}})
    spec["containers"][1]["securityContext"] = {"allowPrivilegeEscalation": True}
    with pytest.raises(ApiError) as refused:
        client.create("/api/v1/namespaces/triton/pods", _pod("weaker", spec))
    said = str(refused.value)
    assert 'volume "host" uses restricted volume type "hostPath"' in said
    assert 'container "helper" must set securityContext.allowPrivilegeEscalation=false' in said


def test_the_job_that_builds_a_plan_is_admitted(client: KubeClient) -> None:
    stack = settings({"models.planBuilder": {"image": f"{ECR}/modelctl@{DIGEST}"}})
    pool = stack.triton_nodes
    assert isinstance(pool, GpuPool)
    onnx = "detect/1/model.onnx"
    built = job(Build("3f2a9c1b7d04" + 52 * "0", "detect", 1, onnx, pool, "8.6", stack, 10**9, 10**8, ("--fp16",)), "models")
    made = client.create("/apis/batch/v1/namespaces/triton/jobs?fieldValidation=Strict", built)
    assert made["spec"]["template"]["spec"]["initContainers"][1]["args"][-1] == "--fp16"
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "plan-builder", "namespace": "triton"}}
    client.create("/api/v1/namespaces/triton/serviceaccounts", account)
    pod = client.create("/api/v1/namespaces/triton/pods", _pod("built", built["spec"]["template"]["spec"]))
    assert pod["status"]["qosClass"] == "Guaranteed"
