"""A stack whose pods copy their release to their own disk, from a folder of the node that they share."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from spec.versions import PROJECT
from tests.infra.test_fetcher import IMAGE
from tests.paths import ROOT
from tests.system.component.engine.recording import Recording
from tests.system.component.engine.stack_run import previewed, required_config

STACK = "staging"
CLAIM = "triton-model-cache-g5"


def config() -> dict[str, Any]:
    """Return staging without optional sections, with models on local disks."""
    found = required_config(ROOT, STACK)
    found[f"{PROJECT}:nodes"] = {"system": found[f"{PROJECT}:nodes"]["system"]}
    found[f"{PROJECT}:gpu"]["pools"][0] |= {"min": 1, "desired": 2, "modelCacheGiB": 50}
    found[f"{PROJECT}:triton"] = {**found[f"{PROJECT}:triton"], "autoscaler": "none", "replicas": 2}
    found[f"{PROJECT}:models"] |= {"access": "local", "fetcher": {"image": IMAGE}}
    return found


@pytest.fixture(scope="module")
def made() -> Recording:
    return previewed(ROOT, STACK, config())


def test_the_folder_is_a_volume_of_the_namespace_before_the_pods(made: Recording) -> None:
    (claim,) = made.of_type("kubernetes:core/v1:PersistentVolumeClaim")
    (volume,) = made.of_type("kubernetes:core/v1:PersistentVolume")
    assert volume.checked["spec"] == {
        "capacity": {"storage": "50Gi"},
        "accessModes": ["ReadWriteMany"],
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": "",
        "claimRef": {"namespace": "triton", "name": CLAIM},
        "hostPath": {"path": "/var/lib/kubelet/model-cache", "type": "Directory"},
    }
    assert (claim.checked["metadata"]["namespace"], claim.checked["metadata"]["name"]) == ("triton", CLAIM)
    assert claim.checked["spec"]["volumeName"] == CLAIM
    deployment = next(
        item for item in made.of_type("kubernetes:apps/v1:Deployment") if item.checked["metadata"]["name"] == "triton"
    )
    pod = deployment.checked["spec"]["template"]["spec"]
    assert {"name": "cache", "persistentVolumeClaim": {"claimName": CLAIM}} in pod["volumes"]
    assert [container["image"] for container in pod["initContainers"]] == [IMAGE]
    order = [item.urn for item in made.registrations]
    assert order.index(volume.urn) < order.index(claim.urn) < order.index(deployment.urn)


def test_gpu_nodes_alone_make_the_folder_when_they_start(made: Recording) -> None:
    making = {
        item.name: "/var/lib/kubelet/model-cache" in base64.b64decode(item.checked["userData"]).decode()
        for item in made.of_type("aws:ec2/launchTemplate:LaunchTemplate")
    }
    assert making == {"nodes-pool-g5-template": True, "nodes-system-template": False}
