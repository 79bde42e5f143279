"""The catalogue agrees with EC2's data about instance types (as recorded in moto)."""

import gzip
import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import moto
import pytest

from spec.catalog import (
    CPU_FAMILIES,
    FAMILY_REGIONS,
    GPU_FAMILIES,
    INSTANCE_TYPES,
    REGIONS,
    UNSUITABLE_FAMILIES,
    InstanceType,
)
from spec.versions import DEFAULT_TRITON_VERSION, TRITON_RELEASES
from tests.paths import ROOT

NOT_RECORDED = {"pods_limit", "compute_capability"}
"""Fields that DescribeInstanceTypes does not return."""
_RECORDED = Path(moto.__file__).parent / "ec2" / "resources"


def _recorded(path: str) -> Any:
    return json.loads(gzip.decompress((_RECORDED / path).read_bytes()))


@pytest.fixture(scope="module")
def ec2_types() -> dict[str, Any]:
    return _recorded("instance_types.json.gz")


@pytest.mark.parametrize("known", INSTANCE_TYPES.values(), ids=lambda known: known.name)
def test_hardware_is_what_ec2_says(known: InstanceType, ec2_types: dict[str, Any]) -> None:
    said = ec2_types[known.name]
    gpu = said.get("GpuInfo", {"Gpus": [{}]})["Gpus"][0]
    store_gb = said.get("InstanceStorageInfo", {}).get("TotalSizeInGB", 0)
    hardware = {
        "name": said["InstanceType"],
        "gpu_name": gpu.get("Name"),
        "gpus": gpu.get("Count", 0),
        "gpu_memory_gib": gpu.get("MemoryInfo", {"SizeInMiB": 0})["SizeInMiB"] // 1024,
        "vcpus": said["VCpuInfo"]["DefaultVCpus"],
        "memory_gib": said["MemoryInfo"]["SizeInMiB"] // 1024,
        "nvme_gib": int(store_gb * 1000**3 / 1024**3),
        "architecture": said["ProcessorInfo"]["SupportedArchitectures"][0],
    }
    assert {field: value for field, value in asdict(known).items() if field not in NOT_RECORDED} == hardware
    assert said["ProcessorInfo"]["SupportedArchitectures"] == ["x86_64"]


@pytest.mark.parametrize("family", [*GPU_FAMILIES, *CPU_FAMILIES])
def test_a_family_is_in_the_regions_that_ec2_lists(family: str) -> None:
    offerings = (_RECORDED / "instance_type_offerings" / "availability-zone").glob("*.json.gz")
    there = set()
    for path in offerings:
        types = json.loads(gzip.decompress(path.read_bytes()))
        if any(offer["InstanceType"].startswith(f"{family}.") for offer in types):
            there.add(path.name.removesuffix(".json.gz"))
    assert FAMILY_REGIONS[family] == there


def test_compute_capabilities_are_those_of_nvidias_table() -> None:
    """From NVIDIA, in docs/facts/gpu-nodes.md#gpu-generations: `T4 (g4dn) 7.5`."""
    page = (ROOT / "docs" / "facts" / "gpu-nodes.md").read_text(encoding="utf-8")
    table = {gpu: float(capability) for gpu, capability in re.findall(r"(\w+) \([\w, -]+\)\s(?:has )?(\d+\.\d)", page)}
    for known in INSTANCE_TYPES.values():
        assert known.compute_capability == (table[known.gpu_name] if known.gpu_name else None), known.name


def test_every_gpu_type_runs_the_default_triton() -> None:
    oldest = TRITON_RELEASES[DEFAULT_TRITON_VERSION].minimum_compute_capability
    too_old = [known.name for known in INSTANCE_TYPES.values() if known.gpus and (known.compute_capability or 0) < oldest]
    assert too_old == []


def test_the_ami_follows_from_the_gpu() -> None:
    assert INSTANCE_TYPES["g5.xlarge"].ami_type == "AL2023_x86_64_NVIDIA"
    assert INSTANCE_TYPES["m7i.large"].ami_type == "AL2023_x86_64_STANDARD"


def test_a_node_keeps_a_part_of_its_memory_and_cpu_for_itself() -> None:
    """A g5.xlarge has just over 13.5 GiB left: docs/facts/gpu-nodes.md#memory-of-a-node."""
    g5 = INSTANCE_TYPES["g5.xlarge"]
    assert g5.allocatable_mib == int(16_384 * 0.94) - 255 - 11 * 110 - 100 == 13_835
    assert g5.allocatable_cpu_millis == 4000 - 80
    assert (g5.max_pods, INSTANCE_TYPES["g5.8xlarge"].max_pods) == (110, 250)
    for known in INSTANCE_TYPES.values():
        assert 0 < known.allocatable_mib < known.memory_gib * 1024
        assert 0 < known.allocatable_cpu_millis < known.vcpus * 1000


def test_no_family_is_both_offered_and_refused() -> None:
    assert not UNSUITABLE_FAMILIES.keys() & {known.family for known in INSTANCE_TYPES.values()}
    assert "us-west-2" in REGIONS


def test_every_gpu_type_has_an_instance_store_so_that_root_volumes_need_no_throughput() -> None:
    assert [known.name for known in INSTANCE_TYPES.values() if known.gpus and not known.nvme_gib] == []
