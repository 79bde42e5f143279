"""A release as a volume: its settings in the stack file, the chart's values, and Mountpoint's options.

The driver's chart and a node that mounts are not available here. Options and attributes come from the driver's
documentation (CONFIGURATION.md of awslabs/mountpoint-s3-csi-driver), sizes and throughputs of FSx from its API reference.
"""

from __future__ import annotations

from typing import Any

import pytest

from infra.serving import model_volume
from infra.serving.triton import FleetArgs, values
from spec.settings import Settings
from tests.charts import rendering
from tests.infra.access import stack
from tests.paths import ROOT
from tests.spec.stack_config import LARGEST_ON_G5_XLARGE, complaints, settings

MOUNTED = {"models.access": "mountpoint"}
GIB = 1024**3
BUCKET = "triton-models-staging-123456789012-us-west-2"
ROLE = "arn:aws:iam::123456789012:role/triton-staging-us-west-2-model-reader"


def lustre(**fsx: Any) -> dict[str, Any]:
    return {"models.access": "fsx-lustre", "models.fsx": {"storageGiB": 1200, "throughputMBsPerTiB": 125, **fsx}}


def chart_values(of: Settings) -> dict[str, Any]:
    assert of.models.release is not None
    return values(stack(), FleetArgs(of.triton, of.triton_nodes, of.models, of.models.release))


def test_triton_copies_releases_unless_the_stack_says_otherwise() -> None:
    assert settings().models.access == "s3"
    assert chart_values(settings())["modelRepository"] == {
        "s3": {"bucket": BUCKET, "prefix": "releases/3f2a9c1b7d04" + 52 * "0", "region": "us-west-2"}
    }


def test_a_mounted_release_is_named_by_its_claim_and_by_nothing_else() -> None:
    made = chart_values(settings(MOUNTED))
    assert made["modelRepository"] == {"volume": {"claimName": "triton-models-3f2a9c1b7d04"}}
    assert made["serviceAccount"]["annotations"]["eks.amazonaws.com/role-arn"] == ROLE


def test_a_file_system_has_every_release_as_a_folder_and_its_pods_need_no_role() -> None:
    made = chart_values(settings(lustre()))
    assert made["modelRepository"] == {
        "volume": {"claimName": "triton-models", "subPath": "releases/3f2a9c1b7d04" + 52 * "0"}
    }
    assert made["serviceAccount"]["annotations"] == {}


def test_the_chart_mounts_the_folder_of_the_release(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    rendered = rendering.render_values(chart_values(settings(lustre())), environment="staging")
    (container,) = rendering.only(rendered, "Deployment")["spec"]["template"]["spec"]["containers"]
    (mount,) = [item for item in container["volumeMounts"] if item["name"] == "models"]
    assert mount == {
        "name": "models",
        "mountPath": "/models/3f2a9c1b7d04" + 52 * "0",
        "subPath": "releases/3f2a9c1b7d04" + 52 * "0",
        "readOnly": True,
    }
    assert "--model-repository=/models/3f2a9c1b7d04" + 52 * "0" in container["args"]


def test_the_chart_takes_what_the_program_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    rendered = rendering.render_values(chart_values(settings(MOUNTED)), environment="staging")
    (container,) = rendering.only(rendered, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert "--model-repository=/models/3f2a9c1b7d04" + 52 * "0" in container["args"]


def test_only_the_prefix_of_the_release_is_mounted_and_nothing_can_be_written() -> None:
    release = settings(MOUNTED).models.release
    assert release is not None
    options = model_volume.mount_options(release, "us-west-2")
    assert "read-only" in options
    assert f"prefix releases/3f2a9c1b7d04{52 * '0'}/" in options
    assert "region us-west-2" in options


def test_the_mount_is_the_servers_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """FUSE hides a file system from every user except the user that mounted it."""
    monkeypatch.chdir(ROOT)
    security = rendering.pod()["securityContext"]
    release = settings().models.release
    assert release is not None
    options = model_volume.mount_options(release, "us-west-2")
    assert {f"uid={security['runAsUser']}", f"gid={security['runAsGroup']}", "allow-other"} <= set(options)


@pytest.mark.parametrize("access", [MOUNTED, lustre()], ids=["mountpoint", "fsx-lustre"])
def test_a_mounted_release_takes_no_disk_of_the_node(access: dict[str, Any]) -> None:
    too_large = {"models.release.bytes": LARGEST_ON_G5_XLARGE + GIB}
    assert [line for line in complaints(too_large) if line.startswith("models.release.bytes")]
    assert settings({**too_large, **access}).models.access == access["models.access"]


@pytest.mark.parametrize("size", [1200, 2400, 4800, 7200])
@pytest.mark.parametrize("throughput", [125, 250, 500, 1000])
def test_every_size_and_throughput_of_a_persistent_file_system_is_taken(size: int, throughput: int) -> None:
    fsx = settings(lustre(storageGiB=size, throughputMBsPerTiB=throughput)).models.fsx
    assert fsx is not None
    assert (fsx.storage_gib, fsx.throughput_mbs_per_tib) == (size, throughput)


def test_a_file_system_holds_two_releases() -> None:
    assert settings({**lustre(), "models.release.bytes": 600 * GIB}).models.fsx is not None
    assert complaints({**lustre(), "models.release.bytes": 1300 * GIB}) == [
        "models.fsx.storageGiB: 1200 GiB do not hold two releases of 1300 GiB, and both are read during a rollout; "
        "use 4800 or more"
    ]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"models.access": "nfs"},
            "models.access: 'nfs' is not a choice; use s3, local, mountpoint or fsx-lustre",
        ),
        (
            {**MOUNTED, "triton.rollout": "in-place"},
            "models.access: 'mountpoint' mounts one release, and rollout: in-place changes it under running pods; "
            "use local or s3, or rollout: rolling",
        ),
        (
            {**MOUNTED, "models.s3Endpoint": "https://minio.example.com:9000"},
            "models.access: 'mountpoint' mounts a bucket of AWS, and models.s3Endpoint names another store; "
            "use s3, or remove s3Endpoint",
        ),
        (
            {**lustre(), "triton.rollout": "in-place"},
            "models.access: 'fsx-lustre' mounts one release, and rollout: in-place changes it under running pods; "
            "use local or s3, or rollout: rolling",
        ),
        (
            {**lustre(), "models.s3Endpoint": "https://minio.example.com:9000"},
            "models.access: 'fsx-lustre' mounts a bucket of AWS, and models.s3Endpoint names another store; "
            "use s3, or remove s3Endpoint",
        ),
        (
            {"models.access": "fsx-lustre"},
            "models.fsx: is missing, and access: fsx-lustre needs a file system; "
            "add the section, like {storageGiB: 1200, throughputMBsPerTiB: 125}, or use another access",
        ),
        (
            {**lustre(), **MOUNTED},
            "models.fsx: is not used with access: mountpoint; remove the section, or use access: fsx-lustre",
        ),
        (
            lustre(storageGiB=3600),
            "models.fsx.storageGiB: 3600 GiB is no size of this file system; use 1200, or a multiple of 2400 "
            "up to 2147481600",
        ),
        (
            lustre(storageGiB=0),
            "models.fsx.storageGiB: 0 GiB is no size of this file system; use 1200, or a multiple of 2400 up to 2147481600",
        ),
        (
            lustre(throughputMBsPerTiB=200),
            "models.fsx.throughputMBsPerTiB: 200 MB/s per TiB is not to be had; use 125, 250, 500 or 1000",
        ),
        (
            {**lustre(), "models.fsx": {"storageGiB": 1200}},
            "models.fsx.throughputMBsPerTiB: is missing; give MB/s per TiB of storage: 125, 250, 500 or 1000",
        ),
    ],
)
def test_a_mistake_is_said_in_a_sentence(changes: dict[str, Any], said: str) -> None:
    assert complaints(changes) == [said]
