"""EC2 types that a stack file describes itself, used like the catalogue."""

from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from spec.gpu_pool import advertised, labels
from spec.settings.digest import compute_capabilities
from stackctl.cost.estimate import estimate
from stackctl.cost.prices import PriceTable
from stackctl.quotas import G, needed_quotas
from tests.spec.stack_config import complaints, settings

NEW = {
    "vcpus": 8,
    "memoryGiB": 64,
    "gpus": 1,
    "gpuName": "B4",
    "gpuMemoryGiB": 32,
    "computeCapability": 12.0,
    "nvmeGiB": 419,
}
ON_IT = {"instanceTypes": {"g9.2xlarge": NEW}, "gpu.pools[0].instanceTypes": ["g9.2xlarge"]}
G5 = {
    "vcpus": 4,
    "memoryGiB": 16,
    "gpus": 1,
    "gpuName": "A10G",
    "gpuMemoryGiB": 22,
    "computeCapability": 8.6,
    "nvmeGiB": 232,
}
_AWS_SAYS = "`aws ec2 describe-instance-types` and NVIDIA's list of CUDA GPUs have it"


def test_a_described_type_is_what_the_nodes_pods_quotas_and_digest_are_computed_from() -> None:
    stack = settings(ON_IT)
    pool = stack.gpu.pools[0]
    assert (pool.types[0].allocatable_cpu_millis, pool.types[0].max_pods, pool.types[0].ami_type) == (
        8000 - 90,
        110,
        "AL2023_x86_64_NVIDIA",
    )
    assert advertised(pool) == {"nvidia.com/gpu": "1", "ephemeral-storage": f"{419 * 9 // 10 - 1}Gi"}
    assert labels(pool)["k8s.amazonaws.com/accelerator"] == "nvidia-b4"
    assert compute_capabilities(stack) == (12.0,)
    need = next(need for need in needed_quotas(stack) if need.quota == G)
    assert (need.at_start, need.at_most, need.takers) == (2 * 8, 4 * 8, ("g5: 2 to 4 x g9.2xlarge",))


def test_its_price_is_that_of_the_stack_file() -> None:
    today = date(2026, 11, 21)
    none = PriceTable("us-west-2", {})
    priced = settings({**ON_IT, "instanceTypes": {"g9.2xlarge": {**NEW, "usdPerHour": 2.5}}})
    costs = {item.what: item.cost.expected for item in estimate(priced, none, today).items if item.part.endswith("g5")}
    assert Decimal("2.5") * 730 * 2 in costs.values()
    assert estimate(settings(ON_IT), none, today).total.unknown


@pytest.mark.parametrize(
    ("types", "sentences"),
    [
        ({"g9": NEW}, ["instanceTypes.g9: 'g9' is not an instance type; give one as EC2 calls it, like g7e.2xlarge"]),
        (
            {"g9.large": {**NEW, "architecture": "arm64"}},
            [
                "instanceTypes.g9.large.architecture: the node images and containers of this platform do not run on arm64; "
                "use a type of x86_64"
            ],
        ),
        (
            {"g9.large": {"vcpus": 4, "memoryGiB": 16, "gpus": 1}},
            [
                f"instanceTypes.g9.large.{key}: is missing; {_AWS_SAYS}"
                for key in ("gpuName", "gpuMemoryGiB", "computeCapability")
            ],
        ),
        (
            {"m9.large": {"vcpus": 4, "memoryGiB": 16, "gpuName": "B4"}},
            ["instanceTypes.m9.large.gpuName: is of a GPU, and gpus is 0; remove it, or give gpus"],
        ),
        (
            {"g9.large": {**NEW, "computeCapability": 8.91}},
            ["instanceTypes.g9.large.computeCapability: 8.91 is none of NVIDIA's, which have one decimal, like 8.9"],
        ),
        (
            {"g5.xlarge": {**G5, "memoryGiB": 32, "gpus": 2}},
            [
                "instanceTypes.g5.xlarge.memoryGiB: 32 is not what spec/catalog.py has of g5.xlarge, 16; remove the "
                "description of it",
                "instanceTypes.g5.xlarge.gpus: 2 is not what spec/catalog.py has of g5.xlarge, 1; remove the "
                "description of it",
            ],
        ),
        (
            {"g9.large": {**NEW, "maxPods": 8}},  # DaemonSets take more
            ["instanceTypes.g9.large.maxPods: 8 is out of range; use 16 to 250 pods"],
        ),
        (
            {"g9.large": {"memoryGiB": 16}},
            ["instanceTypes.g9.large.vcpus: is missing; give its vCPUs, like 8 (VCpuInfo.DefaultVCpus)"],
        ),
    ],
)
def test_facts_that_cannot_be_are_refused(types: dict[str, Any], sentences: list[str]) -> None:
    assert complaints({"instanceTypes": types}) == sentences


def test_facts_that_the_catalogue_has_too_are_taken() -> None:
    assert settings({"instanceTypes": {"g5.xlarge": G5}}).gpu == settings().gpu


def test_a_described_type_has_to_hold_the_pods_too() -> None:
    small = {**NEW, "vcpus": 2, "memoryGiB": 8}
    assert complaints({**ON_IT, "instanceTypes": {"g9.2xlarge": small}}) == [
        "triton.memoryGiB: 12 GiB are more than a g9.2xlarge of pool 'g5' has left beside the kubelet "
        "and the add-ons; use at "
        "most 5",
        "triton.cpu: 3 vCPUs are more than a g9.2xlarge of pool 'g5' has left beside the kubelet and "
        "the add-ons; use at most "
        '"1690m"',
    ]


def test_system_nodes_may_be_of_a_described_type() -> None:
    types = {"m9.large": {"vcpus": 2, "memoryGiB": 8, "maxPods": 29}}
    system = settings({"instanceTypes": types, "nodes.system.instanceTypes": ["m9.large"]}).nodes.system
    assert [(known.name, known.max_pods, known.gpus) for known in system.types] == [("m9.large", 29, 0)]


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        (
            {"nvmeGiB": 0},
            "g9.2xlarge has no instance store, and pulls onto its root volume would be slower with soci; use standard, or "
            "types with an instance store",
        ),
        (
            {"vcpus": 3},
            "g9.2xlarge has 3 vCPUs and 64 GiB, and the node ignores soci below 4 and 8; use standard, or larger types",
        ),
    ],
)
def test_parallel_pulls_need_a_type_on_which_they_are_faster(facts: dict[str, Any], said: str) -> None:
    """Every catalogue type with a GPU qualifies."""
    asked = {"gpu.pools[0].instanceTypes": ["g9.2xlarge"], "gpu.pools[0].imagePull": "soci"}
    assert f"gpu.pools[0].imagePull: {said}" in complaints({**asked, "instanceTypes": {"g9.2xlarge": {**NEW, **facts}}})
    assert settings({**ON_IT, "gpu.pools[0].imagePull": "soci"}).gpu.pools[0].image_pull == "soci"
