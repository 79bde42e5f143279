"""Cache volume, /dev/shm, /tmp and the pod's resource requests.

See docs/facts/triton-s3.md#copies and docs/facts/triton-server.md#shared-memory.
"""

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest

from spec.settings import chart_values
from spec.settings.chart_values import pod_values
from spec.settings.relations.gpu_memory import cuda_pool_mib
from spec.settings.relations.triton import pod_disk_gib
from tests.charts import rendering
from tests.charts.rendering import GIB, IN_PLACE
from tests.paths import ROOT
from tests.spec.stack_config import complaints

MIB = 1024**2


def volumes(overrides: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
    return {v["name"]: v["emptyDir"] for v in rendering.pod(overrides, **options)["volumes"]}


def test_the_cache_has_room_for_the_release_and_what_a_restart_leaves() -> None:
    release = {"bytes": 10 * GIB + 1}
    assert volumes({"release": release})["models"] == {"sizeLimit": "20481Mi"}
    assert volumes({"release": release, "modelCache": {"headroom": 3}})["models"] == {"sizeLimit": "30721Mi"}


def test_a_small_release_gets_the_smallest_cache() -> None:
    assert volumes({"release": {"bytes": 100}})["models"] == {"sizeLimit": "1024Mi"}
    minimum = {"modelCache": {"minimumSize": "300Mi"}}
    assert volumes({"release": {"bytes": 100}, **minimum})["models"] == {"sizeLimit": "300Mi"}


def test_shared_memory_is_a_tmpfs_of_the_given_size() -> None:
    assert volumes({"shm": {"size": "3Gi"}})["shm"] == {"medium": "Memory", "sizeLimit": "3Gi"}


def test_under_mps_the_shared_memory_is_the_daemons() -> None:
    overrides = {"shm": {"enabled": False, "size": "12Gi"}, "resources": {"memory": "2Gi"}}
    assert "shm" not in volumes(overrides)
    assert "/dev/shm" not in [mount["mountPath"] for mount in rendering.container(overrides)["volumeMounts"]]


def test_every_writable_path_is_a_volume() -> None:
    mounts = {m["name"]: m["mountPath"] for m in rendering.container()["volumeMounts"]}
    assert mounts == {"shm": "/dev/shm", "models": "/models", "tmp": "/tmp", "admin": "/run/triton"}
    assert set(volumes()) == set(mounts)


def test_the_pod_asks_for_exactly_what_it_may_use() -> None:
    resources = rendering.container({"release": {"bytes": 5 * GIB}})["resources"]
    expected = {
        "cpu": "3",
        "memory": "12Gi",
        "nvidia.com/gpu": "1",
        "ephemeral-storage": f"{10 * 1024 + 1024 + 256}Mi",
    }
    limits = {name: amount for name, amount in expected.items() if name != "cpu"}
    assert resources == {"requests": expected, "limits": limits}


def test_the_local_environment_fits_into_one_gibibyte() -> None:
    overrides = {"resources": {"memory": "1Gi"}, "release": {"bytes": 10_000}}
    resources = rendering.container(overrides, environment="local")["resources"]
    assert resources["limits"]["memory"] == "1Gi"
    assert resources["limits"]["ephemeral-storage"] == f"{1024 + 256 + 256}Mi"


def test_in_place_the_cache_has_room_for_two_versions_of_every_model() -> None:
    assert volumes({**IN_PLACE, "release": {"bytes": 4 * GIB}})["models"] == {"sizeLimit": f"{4 * 4 * 2 * 1024}Mi"}
    assert volumes({**IN_PLACE, "release": {"bytes": 5 * GIB}})["models"] == {"sizeLimit": f"{8 * 4 * 2 * 1024}Mi"}


@pytest.mark.parametrize("environment", rendering.ENVIRONMENTS)
@pytest.mark.parametrize("release_bytes", [1, GIB // 2, GIB // 2 + 1, 5 * GIB, 80 * GIB + 12_345])
@pytest.mark.parametrize(("mode", "overrides"), [("rolling", {}), ("in-place", IN_PLACE)])
def test_settings_reckon_with_the_disk_that_a_pod_asks_for(
    environment: str, release_bytes: int, mode: str, overrides: dict[str, Any]
) -> None:
    values = {**overrides, "release": {"bytes": release_bytes}}
    resources = rendering.container(values, environment=environment)["resources"]
    mebibytes = int(resources["requests"]["ephemeral-storage"].removesuffix("Mi"))
    assert pod_disk_gib(release_bytes, mode, values=pod_values(environment)) == math.ceil(mebibytes / 1024)


def test_settings_reckon_with_the_values_that_people_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in ("charts/triton/values.yaml", "helm-values/triton/base.yaml"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    written = {
        "tmp": {"size": "20Gi"},
        "drain": {"longestRequestSeconds": 90},
        "modelCache": {"headroom": 3, "minimumSize": "5Gi"},
        "server": {"extraArgs": ["--cuda-memory-pool-byte-size=0:1073741824"]},
        "extraVolumes": [
            {"name": "data", "emptyDir": {"sizeLimit": "4Gi"}},
            {"name": "fast", "emptyDir": {"medium": "Memory", "sizeLimit": "6Gi"}},
        ],
        "extraContainers": [{"name": "proxy", "resources": {"cpu": "1.5", "memory": "3Gi"}}],
        "extraInitContainers": [
            {"name": "watch", "restartPolicy": "Always", "resources": {"cpu": "250m", "memory": "256Mi"}},
            {"name": "prepare", "resources": {"cpu": "2", "memory": "4Gi"}},
        ],
    }
    (tmp_path / "helm-values/triton/staging.yaml").write_text(json.dumps(written))
    monkeypatch.setattr(chart_values, "_ROOT", tmp_path)
    pod_values.cache_clear()
    values = pod_values("staging")
    told = complaints({"triton.memoryGiB": 11})
    pod_values.cache_clear()
    assert (values.tmp, values.cache_copies, values.smallest_cache) == (20 * 1024, 3, 5 * 1024)
    assert (values.extra_disk, values.beside_millis, values.beside) == (4096, 1750, 3328)
    assert values.longest_request == 90
    assert pod_disk_gib(GIB, values=values) == 30
    assert pod_disk_gib(10 * GIB, values=values) == 55
    beside = (
        "beside the kubelet and the add-ons and {} of the containers beside the server (helm-values/triton); use at most {}"
    )
    g5 = "a g5.xlarge of pool 'g5' has left"
    assert [line for line in told if line.startswith(("triton.memoryGiB", "triton.cpu"))] == [
        f"triton.memoryGiB: 11 GiB are more than {g5} {beside.format('3328 MiB', 10)}",
        "triton.memoryGiB: 11 GiB do not hold 2048 MiB of /dev/shm, 4096 MiB for the server, 6144 MiB of volumes in memory "
        "(extraVolumes); give 12 or more",
        f"triton.cpu: 3 vCPUs are more than {g5} {beside.format('1750m', chr(34) + '1930m' + chr(34))}",
    ]
    assert (cuda_pool_mib(values.extra_args, 1), cuda_pool_mib(("--cuda-memory-pool-byte-size=0:0",), 2)) == (1024, 64)


MOUNTED: dict[str, Any] = {
    "modelRepository": {"s3": {"bucket": "", "prefix": "", "region": ""}, "volume": {"claimName": "models-of-today"}}
}


def test_a_mounted_release_is_read_where_it_is_and_never_written() -> None:
    pod, container = rendering.pod(MOUNTED), rendering.container(MOUNTED)
    volume = next(item for item in pod["volumes"] if item["name"] == "models")
    assert volume == {"name": "models", "persistentVolumeClaim": {"claimName": "models-of-today", "readOnly": True}}
    mount = next(item for item in container["volumeMounts"] if item["name"] == "models")
    assert mount == {"name": "models", "mountPath": f"/models/{rendering.RELEASE_ID}", "readOnly": True}
    assert rendering.flag(container, "--model-repository") == mount["mountPath"]


def test_a_release_may_be_a_folder_of_a_volume() -> None:
    folder = {"subPath": f"releases/{rendering.RELEASE_ID}"}
    overrides = {"modelRepository": {**MOUNTED["modelRepository"], "volume": {"claimName": "all", **folder}}}
    mount = next(item for item in rendering.container(overrides)["volumeMounts"] if item["name"] == "models")
    assert mount == {"name": "models", "mountPath": f"/models/{rendering.RELEASE_ID}", **folder, "readOnly": True}


def test_a_mounted_release_takes_no_disk() -> None:
    overrides = {**MOUNTED, "release": {"bytes": 500 * GIB}}
    mebibytes = rendering.container(overrides)["resources"]["requests"]["ephemeral-storage"]
    assert mebibytes == f"{1024 + 256}Mi"
    assert pod_disk_gib(500 * GIB, access="mountpoint") == math.ceil((1024 + 256) / 1024)


def test_who_mounts_calls_neither_s3_nor_sts() -> None:
    assert [name for name in rendering.env(MOUNTED) if name.startswith(("AWS_", "TRITON_AWS"))] == []
    egress = rendering.only(rendering.render(MOUNTED), "NetworkPolicy")["spec"]["egress"]
    assert [port["port"] for rule in egress for port in rule["ports"]] == [53, 53]
