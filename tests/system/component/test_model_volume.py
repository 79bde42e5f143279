"""A stack with mounted models: the driver, the volume of the release, its claim, and its readers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spec.settings import Settings, load
from spec.versions import PROJECT
from tests.paths import ROOT
from tests.system.component.engine.recording import Recording
from tests.system.component.engine.stack_run import TODAY, previewed, required_config

STACK = "staging"
VOLUME = "kubernetes:core/v1:PersistentVolume"
CLAIM = "kubernetes:core/v1:PersistentVolumeClaim"
ADDON = "aws:eks/addon:Addon"


def config() -> dict[str, Any]:
    """Return staging without optional sections, with mounted models."""
    found = required_config(ROOT, STACK)
    found[f"{PROJECT}:nodes"] = {"system": found[f"{PROJECT}:nodes"]["system"]}
    found[f"{PROJECT}:gpu"]["pools"][0] |= {"min": 1, "desired": 2}
    found[f"{PROJECT}:triton"] = {**found[f"{PROJECT}:triton"], "autoscaler": "none", "replicas": 2}
    del found[f"{PROJECT}:models"]["fetcher"]
    found[f"{PROJECT}:models"]["access"] = "mountpoint"
    return found


@pytest.fixture(scope="module")
def settings() -> Settings:
    return load(config(), STACK, today=TODAY)


@pytest.fixture(scope="module")
def mounted() -> Recording:
    return previewed(ROOT, STACK, config())


def test_the_driver_runs_on_gpu_nodes_and_may_read_nothing_itself(mounted: Recording) -> None:
    addon = mounted.one(ADDON, "addons-aws-mountpoint-s3-csi-driver").checked
    assert json.loads(addon["configurationValues"]) == {"node": {"tolerateAllTaints": True}}
    assert not {"serviceAccountRoleArn", "podIdentityAssociations"} & addon.keys()


def test_the_volume_is_the_prefix_of_the_release_read_with_the_pods_own_role(mounted: Recording, settings: Settings) -> None:
    release = settings.models.release
    assert release is not None
    spec = mounted.one(VOLUME).checked["spec"]
    assert spec["csi"] == {
        "driver": "s3.csi.aws.com",
        "volumeHandle": f"triton-models-{release.id[:12]}",
        "volumeAttributes": {
            "bucketName": "triton-models-staging-123456789012-us-west-2",
            "authenticationSource": "pod",
            "stsRegion": "us-west-2",
        },
    }
    assert f"prefix releases/{release.id}/" in spec["mountOptions"]
    assert (spec["accessModes"], spec["persistentVolumeReclaimPolicy"]) == (["ReadOnlyMany"], "Retain")


def test_volume_and_claim_belong_to_each_other_and_to_no_class(mounted: Recording) -> None:
    volume, claim = mounted.one(VOLUME).checked, mounted.one(CLAIM).checked
    assert volume["spec"]["claimRef"] == {key: claim["metadata"][key] for key in ("namespace", "name")}
    assert claim["spec"]["volumeName"] == volume["metadata"]["name"]
    assert volume["spec"]["storageClassName"] == claim["spec"]["storageClassName"] == ""
    assert claim["spec"]["resources"]["requests"] == volume["spec"]["capacity"]


def test_the_pods_come_after_their_claim_and_the_claim_after_the_driver(mounted: Recording) -> None:
    deployment = next(
        item for item in mounted.of_type("kubernetes:apps/v1:Deployment") if item.checked["metadata"]["name"] == "triton"
    )
    claim = mounted.one(CLAIM)
    volumes = deployment.checked["spec"]["template"]["spec"]["volumes"]
    assert {"claimName": claim.checked["metadata"]["name"], "readOnly": True} in [
        volume.get("persistentVolumeClaim") for volume in volumes
    ]
    order = [item.urn for item in mounted.registrations]
    driver = mounted.one(ADDON, "addons-aws-mountpoint-s3-csi-driver")
    assert order.index(driver.urn) < order.index(claim.urn) < order.index(deployment.urn)


def test_a_stack_that_does_not_ask_for_it_has_no_driver(stack_runs: Any) -> None:
    up = stack_runs("local").up
    assert [item.name for item in up.of_type(ADDON) if "mountpoint" in item.name] == []
    assert up.of_type(VOLUME, CLAIM) == []
