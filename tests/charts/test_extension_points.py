"""Additions to the Triton pod: their place in it, their resources, and the additions that the chart refuses."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.charts import pod_security, rendering
from tests.charts.rendering import GIB
from tests.charts.schemas import KUBERNETES_MINORS, assert_valid
from twin.releases import helm
from twin.releases.helm import HelmError

IMAGE = "123456789012.dkr.ecr.us-west-2.amazonaws.com/helper@sha256:" + "0123456789abcdef" * 4
SMALL = {"cpu": "100m", "memory": "128Mi"}
HELPER: dict[str, Any] = {"name": "helper", "image": IMAGE, "resources": SMALL}
EVERYTHING: dict[str, Any] = {
    "server": {"command": ["numactl", "--interleave=all", "tritonserver"]},
    "resources": {"vpc.amazonaws.com/efa": 1, "hugepages-2Mi": "512Mi"},
    "imagePullSecrets": [{"name": "registry"}],
    "podLabels": {"team": "vision"},
    "podAnnotations": {"example.com/note": "seen"},
    "extraVolumes": [
        {"name": "data", "emptyDir": {"sizeLimit": "2Gi"}},
        {"name": "fast", "emptyDir": {"medium": "Memory", "sizeLimit": "256Mi"}},
        {"name": "labels", "configMap": {"name": "labels"}},
        {"name": "weights", "persistentVolumeClaim": {"claimName": "weights", "readOnly": True}},
    ],
    "extraVolumeMounts": [
        {"name": "data", "mountPath": "/mnt/data"},
        {"name": "labels", "mountPath": "/opt/tritonserver/backends/mine", "subPath": "mine", "readOnly": True},
    ],
    "extraInitContainers": [
        {
            **HELPER,
            "name": "prepare",
            "command": ["sh", "-c", "true"],
            "volumeMounts": [{"name": "data", "mountPath": "/out"}],
        },
        {**HELPER, "name": "watch", "restartPolicy": "Always"},
    ],
    "extraContainers": [
        {
            **HELPER,
            "env": [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}}],
            "ports": [{"name": "web", "containerPort": 9000}],
            "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}, {"name": "fast", "mountPath": "/fast"}],
            "readinessProbe": {"httpGet": {"path": "/", "port": 9000}},
        }
    ],
    "extraObjects": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "labels"}, "data": {"mine": "1"}}],
}


def refusals(overrides: dict[str, Any]) -> list[str]:
    with pytest.raises(HelmError) as error:
        rendering.render(overrides)
    return str(error.value).splitlines()


@pytest.mark.parametrize("minor", KUBERNETES_MINORS)
def test_what_is_added_is_valid_and_the_pod_stays_restricted(minor: str) -> None:
    objects = rendering.render(EVERYTHING, environment="prod")
    assert_valid(objects, minor)
    assert pod_security.violations(rendering.only(objects, "Deployment")["spec"]["template"]["spec"]) == []


def test_what_is_added_lands_beside_what_the_chart_has() -> None:
    plain, template = rendering.deployment(), rendering.deployment(EVERYTHING)["spec"]["template"]
    own, pod = plain["spec"]["template"], template["spec"]
    assert template["metadata"]["labels"] == {**own["metadata"]["labels"], "team": "vision"}
    assert template["metadata"]["annotations"] == {**own["metadata"]["annotations"], "example.com/note": "seen"}
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    assert pod["volumes"] == [*own["spec"]["volumes"], *EVERYTHING["extraVolumes"]]
    assert [container["name"] for container in pod["initContainers"]] == ["prepare", "watch"]
    assert [container["name"] for container in pod["containers"]] == ["triton", "helper"]
    server = pod["containers"][0]
    assert server["command"][4:] == EVERYTHING["server"]["command"]
    assert server["args"] == own["spec"]["containers"][0]["args"]
    assert server["volumeMounts"] == [*own["spec"]["containers"][0]["volumeMounts"], *EVERYTHING["extraVolumeMounts"]]


def test_a_container_gets_what_it_asks_for_and_the_rights_of_the_server() -> None:
    server, helper = rendering.pod(EVERYTHING)["containers"]
    assert helper["resources"] == {"requests": SMALL, "limits": SMALL}
    assert helper["securityContext"] == server["securityContext"]
    assert {key: helper[key] for key in ("env", "ports", "volumeMounts", "readinessProbe")} == {
        key: EVERYTHING["extraContainers"][0][key] for key in ("env", "ports", "volumeMounts", "readinessProbe")
    }


def test_further_resources_and_volumes_are_in_what_the_pod_asks_for() -> None:
    resources = rendering.container({**EVERYTHING, "release": {"bytes": 5 * GIB}})["resources"]
    assert (
        resources["requests"]
        == resources["limits"] | {"cpu": "3"}
        == {
            "cpu": "3",
            "memory": "12Gi",
            "nvidia.com/gpu": "1",
            "vpc.amazonaws.com/efa": "1",
            "hugepages-2Mi": "512Mi",
            "ephemeral-storage": f"{(10 + 1 + 2) * 1024 + 256}Mi",
        }
    )


def test_further_objects_are_in_the_namespace_and_there_before_the_pods() -> None:
    objects = rendering.render(EVERYTHING)
    (config,) = [o for o in objects if o["kind"] == "ConfigMap"]
    deployment = rendering.only(objects, "Deployment")
    assert config["metadata"]["namespace"] == "triton"
    assert config["metadata"]["labels"] == deployment["metadata"]["labels"]
    assert config["data"] == {"mine": "1"}
    needed = deployment["metadata"]["annotations"]["config.kubernetes.io/depends-on"].split(",")
    assert needed[-1] == "/namespaces/triton/ConfigMap/labels"
    secret = {"apiVersion": "external-secrets.io/v1", "kind": "ExternalSecret", "metadata": {"name": "a"}, "spec": {}}
    needed = rendering.deployment({"extraObjects": [secret]})["metadata"]["annotations"]["config.kubernetes.io/depends-on"]
    assert needed.endswith(",external-secrets.io/namespaces/triton/ExternalSecret/a")


def test_values_of_an_environment_lie_over_the_base_and_its_lists_replace_those_of_it(tmp_path: Path) -> None:
    base, staging = tmp_path / "base.yaml", tmp_path / "staging.yaml"
    base.write_text(json.dumps({"extraContainers": [HELPER], "podLabels": {"team": "vision", "tier": "all"}}))
    staging.write_text(json.dumps({"extraContainers": [{**HELPER, "name": "other"}], "podLabels": {"tier": "one"}}))
    objects = helm.render(
        rendering.CHART,
        name="triton",
        namespace="triton",
        values=dict(rendering.COMPUTED),
        value_files=[*rendering.value_files("staging"), base, staging],
        kube_version=helm.DEFAULT_KUBE_VERSION,
    )
    template = rendering.only(objects, "Deployment")["spec"]["template"]
    assert [container["name"] for container in template["spec"]["containers"]] == ["triton", "other"]
    assert {key: template["metadata"]["labels"][key] for key in ("team", "tier")} == {"team": "vision", "tier": "one"}


CONTAINER = "extraContainers[0]"
REFUSED: list[tuple[dict[str, Any], str]] = [
    (
        {"extraVolumes": [{"name": "host", "hostPath": {"path": "/"}}]},
        "extraVolumes[0]: additional properties 'hostPath' not allowed",
    ),
    ({"extraVolumes": [{"name": "data", "emptyDir": {}}]}, "extraVolumes[0].emptyDir: missing property 'sizeLimit'"),
    ({"extraVolumes": [{"name": "data"}]}, "extraVolumes[0]: minProperties: got 1, want 2"),
    (
        {"extraContainers": [{**HELPER, "securityContext": {"privileged": True}}]},
        f"{CONTAINER}: additional properties 'securityContext' not allowed",
    ),
    ({"extraContainers": [{"name": "a", "image": IMAGE}]}, f"{CONTAINER}: missing property 'resources'"),
    (
        {"extraContainers": [{**HELPER, "resources": {**SMALL, "nvidia.com/gpu": 1}}]},
        f"{CONTAINER}.resources: additional properties 'nvidia.com/gpu' not allowed",
    ),
    (
        {"resources": {"vpc.amazonaws.com/efa": 0}},
        "resources.vpc.amazonaws.com/efa: minimum: got 0, want 1",
    ),
    ({"server": {"command": []}}, "server.command: minItems: got 0, want 1"),
    ({"imagePullSecrets": [{"name": ""}]}, "imagePullSecrets[0].name: minLength: got 0, want 1"),
]


@pytest.mark.parametrize(("overrides", "said"), REFUSED, ids=[said.partition(":")[0] for _, said in REFUSED])
def test_what_would_break_or_weaken_the_pod_is_refused(overrides: dict[str, Any], said: str) -> None:
    assert refusals(overrides) == [said]
