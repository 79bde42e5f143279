"""`models.access: local`: its settings in the stack file, and the chart's values."""

from typing import Any

import pulumi
import pytest

from infra.serving import model_volume, triton
from infra.serving.triton import FleetArgs, values
from spec.release_signature import split
from tests.charts import rendering
from tests.infra.access import stack
from tests.paths import ROOT
from tests.spec.stack_config import DIGEST, ECR, LARGEST_ON_G5_XLARGE, complaints, settings

IMAGE = f"{ECR}/modelctl@{DIGEST}"
LOCAL: dict[str, Any] = {"models.access": "local", "models.fetcher": {"image": IMAGE}}


def test_the_chart_is_told_the_image_beside_the_release(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    read = settings({**LOCAL, "models.s3Endpoint": "https://minio.example.com:9000"})
    assert read.models.release is not None
    given = values(stack(), FleetArgs(read.triton, read.triton_nodes, read.models, read.models.release))
    assert given["modelRepository"] == {
        "s3": {
            "bucket": "triton-models-staging-123456789012-us-west-2",
            "prefix": "releases/3f2a9c1b7d04" + 52 * "0",
            "region": "us-west-2",
            "endpoint": "https://minio.example.com:9000",
        },
        "fetch": {"image": IMAGE},
    }
    role = "arn:aws:iam::123456789012:role/triton-staging-us-west-2-model-reader"
    assert given["serviceAccount"]["annotations"]["eks.amazonaws.com/role-arn"] == role
    rendered = rendering.render_values(given, environment="staging")
    (init,) = rendering.only(rendered, "Deployment")["spec"]["template"]["spec"]["initContainers"]
    assert init["image"] == IMAGE


def test_the_disk_of_a_node_holds_twice_the_release_that_the_server_could_copy() -> None:
    larger = {"models.release.bytes": LARGEST_ON_G5_XLARGE + 1}
    assert [line for line in complaints(larger) if line.startswith("models.release.bytes")]
    largest = 2 * LARGEST_ON_G5_XLARGE - 1024**3
    assert settings({**LOCAL, "models.release.bytes": largest}).models.access == "local"
    assert complaints({**LOCAL, "models.release.bytes": largest + 1}) == [
        f"models.release.bytes: {largest + 1} bytes make a pod ask for 178 GiB of disk (its cache holds one copy) and a "
        "g5.xlarge of pool 'g5' has 177 GiB left beside the kubelet and the images; use instance types with larger disks, "
        "or release fewer models",
    ]


def test_in_place_the_disk_of_a_node_holds_two_releases() -> None:
    in_place = {**LOCAL, "triton.rollout": "in-place", "models.release.bytes": 64 * 1024**3}
    assert settings(in_place).models.access == "local"
    assert complaints({**in_place, "models.release.bytes": 64 * 1024**3 + 1}) == [
        f"models.release.bytes: {64 * 1024**3 + 1} bytes make a pod ask for 259 GiB of disk (its cache holds 2 copies) and "
        "a g5.xlarge of pool 'g5' has 177 GiB left beside the kubelet and the images; use instance types with larger disks, "
        "or release fewer models",
    ]


def test_in_place_a_node_has_room_for_what_fetches_beside_the_server() -> None:
    (most,) = complaints({**LOCAL, "triton.memoryGiB": 64})
    (beside,) = complaints({**LOCAL, "triton.memoryGiB": 64, "triton.rollout": "in-place"})
    assert "256 MiB of the containers beside the server" in beside
    assert "beside the server" not in most
    (cpus,) = complaints({**LOCAL, "triton.cpu": "64", "triton.rollout": "in-place"})
    assert "250m of the containers beside the server" in cpus


def test_in_place_the_chart_is_told_what_to_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    read = settings({**LOCAL, "triton.rollout": "in-place"})
    assert read.models.release is not None
    given = values(stack(), FleetArgs(read.triton, read.triton_nodes, read.models, read.models.release))
    assert given["modelRepository"]["s3"]["prefix"] == "live"
    rendered = rendering.render_values(given, environment="staging")
    inits = rendering.only(rendered, "Deployment")["spec"]["template"]["spec"]["initContainers"]
    assert [init["name"] for init in inits] == ["fetch", "follow"]


CACHED: dict[str, Any] = {**LOCAL, "gpu.pools[0].modelCacheGiB": 100}


def test_pods_of_a_pool_with_a_cache_share_the_folder_of_their_node() -> None:
    read = settings(CACHED)
    assert read.models.release is not None
    given = values(stack(), FleetArgs(read.triton, read.triton_nodes, read.models, read.models.release))
    assert given["modelRepository"]["fetch"] == {
        "image": IMAGE,
        "cache": {"claimName": "triton-model-cache-g5", "gib": 100},
    }


def test_the_disk_of_a_node_has_less_room_by_its_cache() -> None:
    (line,) = complaints({**CACHED, "models.release.bytes": 90 * 1024**3})
    assert line == (
        f"models.release.bytes: {90 * 1024**3} bytes make a pod ask for 93 GiB of disk (its cache holds one copy) and a "
        "g5.xlarge of pool 'g5' has 77 GiB left beside the kubelet, 100 GiB of modelCacheGiB and the images; use instance "
        "types with larger disks, or release fewer models"
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"models.access": "local"},
            "models.fetcher: is missing, and access: local needs the image that copies releases; add the section, like "
            "{image: <mirror>/modelctl@sha256:<64 hex digits>}, or use another access",
        ),
        (
            {**LOCAL, "models.access": "s3"},
            "models.fetcher: is not used with access: s3; remove the section, or use access: local",
        ),
        (
            {**LOCAL, "models.fetcher": {"image": f"{ECR}/modelctl:1.0"}},
            f"models.fetcher.image: '{ECR}/modelctl:1.0' is not an image of modelctl by its digest: its path has to end in "
            "/modelctl; give <mirror>/modelctl@sha256:<64 hex digits> (`crane digest` prints it)",
        ),
        (
            {"gpu.pools[0].modelCacheGiB": 100},
            "gpu.pools[0].modelCacheGiB: nothing is kept there with models.access: s3; use access: local, or remove it",
        ),
        (
            {**CACHED, "gpu.pools[0].modelCacheGiB": 1, "models.release.bytes": 1024**3 + 1},
            "gpu.pools[0].modelCacheGiB: 1 GiB do not hold the release of 1073741825 bytes; give 2 or more",
        ),
        ({**LOCAL, "models.fetcher": {}}, "models.fetcher.image: is missing; "),
    ],
)
def test_what_does_not_go_together_is_told(changes: dict[str, Any], said: str) -> None:
    (line,) = complaints(changes)
    assert line.startswith(said)


def test_the_cache_of_a_pool_is_one_resource_with_and_without_fleets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under another name Pulumi would delete the old cache last, which is the same object in the cluster."""
    made: list[str] = []
    monkeypatch.setattr(model_volume, "node_cache", lambda name, *_: made.append(name))
    cached = {**LOCAL, "gpu.pools[0].modelCacheGiB": 100}
    for changes in (cached, {**cached, "fleets": [{"name": "one", "models": ["resnet50"]}]}):
        read = settings(changes)
        fleets = [FleetArgs.of(fleet, read) for fleet in read.each_fleet]
        triton._node_caches("triton", fleets, pulumi.ResourceOptions())
    assert made == ["triton-cache-g5", "triton-cache-g5"]


KEY = "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE\n-----END PUBLIC KEY-----\n"
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIU\n-----END CERTIFICATE-----"


@pytest.mark.parametrize("rollout", ["rolling", "in-place"])
def test_each_container_that_fetches_gets_the_signers(rollout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    read = settings({**LOCAL, "models.signers": [KEY, CERTIFICATE], "triton.rollout": rollout})
    assert read.models.release is not None
    given = values(stack(), FleetArgs(read.triton, read.triton_nodes, read.models, read.models.release))
    rendered = rendering.render_values(given, environment="staging")
    containers = rendering.only(rendered, "Deployment")["spec"]["template"]["spec"]["initContainers"]
    assert len(containers) == (1 if rollout == "rolling" else 2)
    for container in containers:
        (passed,) = [entry["value"] for entry in container["env"] if entry["name"] == "MODEL_SIGNERS"]
        assert split(passed) == (KEY, CERTIFICATE)


def test_signers_need_the_copy_that_verifies_and_are_pem() -> None:
    assert complaints({"models.signers": [KEY]}) == [
        "models.signers: is not used with access: s3, where Triton reads the bucket unverified; use access: local"
    ]
    assert complaints({**LOCAL, "models.signers": ["key.pem"]}) == [
        "models.signers[0]: 'key.pem' is neither a public key nor a certificate in PEM; give the text that `openssl ec "
        "-in KEY -pubout` prints, after `- |`"
    ]
