"""EC2 instance types that this platform uses: GPUs, memory, network and AMI family. Prices: stackctl/cost/prices.

Hardware numbers are those of EC2's DescribeInstanceTypes. Reserves follow the EKS AL2023 node bootstrap.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from spec import kubelet

GPU_AMI = "AL2023_x86_64_NVIDIA"
CPU_AMI = "AL2023_x86_64_STANDARD"

# EC2 memory that the kernel and firmware keep for themselves, so that the kubelet never sees it. Rather too much than too
# little: on a node that is taken for larger than it is, a pod finds no room (docs/facts/gpu-nodes.md#memory-of-a-node).
INVISIBLE_MEMORY_SHARE = 0.06


@dataclass(frozen=True)
class MigProfile:
    """Equal instances that NVIDIA's MIG cuts a GPU into: how many there is room for, and the memory of each in MiB."""

    instances: int
    memory_mib: int


# `nvidia-smi mig -lgip` by GPU and its GiB: the profiles that fit more than once. For 80 GiB they are those of the A100;
# an H100 has up to 2 % more for each.
_MIG_80_GIB = {
    "1g.10gb": MigProfile(7, 9728),
    "1g.20gb": MigProfile(4, 19_968),
    "2g.20gb": MigProfile(3, 19_968),
    "3g.40gb": MigProfile(2, 40_192),
}
_MIG_PROFILES: Mapping[tuple[str | None, int], Mapping[str, MigProfile]] = {
    ("A100", 40): {"1g.5gb": MigProfile(7, 4864), "2g.10gb": MigProfile(3, 9984), "3g.20gb": MigProfile(2, 19_968)},
    ("A100", 80): _MIG_80_GIB,
    ("H100", 80): _MIG_80_GIB,
}


@dataclass(frozen=True)
class InstanceType:
    """One EC2 instance type.

    Memory is in GiB, `gpu_memory_gib` is per GPU, `nvme_gib` is the instance store in total (0: none),
    `compute_capability` is NVIDIA's, `pods_limit` the most pods that it has addresses for where that is less than usual.
    """

    name: str
    gpu_name: str | None
    gpus: int
    gpu_memory_gib: int
    compute_capability: float | None
    vcpus: int
    memory_gib: int
    nvme_gib: int
    architecture: str = "x86_64"
    pods_limit: int | None = None

    @property
    def family(self) -> str:
        """Return the part before the dot: `g5` of `g5.xlarge`."""
        return self.name.partition(".")[0]

    @property
    def mig_profiles(self) -> Mapping[str, MigProfile]:
        """Return how MIG can cut each GPU, by profile; empty where it cannot."""
        return _MIG_PROFILES.get((self.gpu_name, self.gpu_memory_gib), {})

    @property
    def ami_type(self) -> str:
        """EKS node group AMI type: the NVIDIA variant for GPU types, the standard one for the others."""
        return GPU_AMI if self.gpus else CPU_AMI

    @property
    def max_pods(self) -> int:
        """Pods per node, as managed node groups cap it, and as it has addresses for."""
        most = kubelet.max_pods(self.vcpus)
        return min(most, self.pods_limit or most)

    @property
    def allocatable_mib(self) -> int:
        """MiB of memory that the kubelet leaves to pods, those of DaemonSets among them.

        On a g5.xlarge that is a good 13.5 GiB (docs/facts/gpu-nodes.md#memory-of-a-node).
        """
        total = self.memory_gib * 1024
        return int(total - total * INVISIBLE_MEMORY_SHARE - kubelet.reserved_memory_mib(self.max_pods))

    def allocatable_disk_gib(self, root_gib: int) -> int:
        """GiB of disk that the kubelet leaves to pods: of the instance store, or of a root volume of `root_gib` GiB."""
        return kubelet.disk_for_pods_gib(self.nvme_gib or root_gib)

    @property
    def allocatable_cpu_millis(self) -> int:
        """Thousandths of a vCPU that the kubelet leaves to pods, those of DaemonSets among them."""
        return self.vcpus * 1000 - kubelet.reserved_cpu_millis(self.vcpus)


def _gpu(
    family: str, gpu: str, memory: int, capability: float, sizes: Mapping[str, tuple[int, int, int, int]]
) -> dict[str, InstanceType]:
    """Return the sizes of one GPU family: size -> (GPUs, vCPUs, GiB, NVMe GB)."""
    types = {}
    for size, (gpus, vcpus, gib, nvme_gb) in sizes.items():
        name = f"{family}.{size}"
        nvme_gib = int(nvme_gb * 1000**3 / 1024**3)
        types[name] = InstanceType(name, gpu, gpus, memory, capability, vcpus, gib, nvme_gib)
    return types


_CPU_SIZES: Mapping[str, int] = {
    **{"large": 2, "xlarge": 4, "2xlarge": 8, "4xlarge": 16},
    **{"8xlarge": 32, "12xlarge": 48, "16xlarge": 64},
}


def _cpu(family: str, gib_per_vcpu: int) -> dict[str, InstanceType]:
    """Return the sizes of one CPU family, all of which have so many GiB for each vCPU."""
    return {
        f"{family}.{size}": InstanceType(f"{family}.{size}", None, 0, 0, None, vcpus, vcpus * gib_per_vcpu, 0)
        for size, vcpus in _CPU_SIZES.items()
    }


INSTANCE_TYPES: Mapping[str, InstanceType] = {
    **_gpu(
        "g4dn",
        "T4",
        16,
        7.5,
        {
            "xlarge": (1, 4, 16, 125),
            "2xlarge": (1, 8, 32, 225),
            "4xlarge": (1, 16, 64, 225),
            "8xlarge": (1, 32, 128, 900),
            "12xlarge": (4, 48, 192, 900),
            "16xlarge": (1, 64, 256, 900),
        },
    ),
    **_gpu(
        "g5",
        "A10G",
        22,
        8.6,
        {
            "xlarge": (1, 4, 16, 250),
            "2xlarge": (1, 8, 32, 450),
            "4xlarge": (1, 16, 64, 600),
            "8xlarge": (1, 32, 128, 900),
            "12xlarge": (4, 48, 192, 3800),
            "16xlarge": (1, 64, 256, 1900),
            "24xlarge": (4, 96, 384, 3800),
            "48xlarge": (8, 192, 768, 7600),
        },
    ),
    **_gpu(
        "g6",
        "L4",
        22,
        8.9,
        {
            "xlarge": (1, 4, 16, 250),
            "2xlarge": (1, 8, 32, 450),
            "4xlarge": (1, 16, 64, 600),
            "8xlarge": (1, 32, 128, 900),
            "12xlarge": (4, 48, 192, 3760),
            "16xlarge": (1, 64, 256, 1880),
            "24xlarge": (4, 96, 384, 3760),
            "48xlarge": (8, 192, 768, 7520),
        },
    ),
    **_gpu(
        "g6e",
        "L40S",
        44,
        8.9,
        {
            "xlarge": (1, 4, 32, 250),
            "2xlarge": (1, 8, 64, 450),
            "4xlarge": (1, 16, 128, 600),
            "8xlarge": (1, 32, 256, 900),
            "12xlarge": (4, 48, 384, 3800),
            "16xlarge": (1, 64, 512, 1900),
            "24xlarge": (4, 96, 768, 3800),
            "48xlarge": (8, 192, 1536, 7600),
        },
    ),
    **_gpu("gr6", "L4", 22, 8.9, {"4xlarge": (1, 16, 128, 600), "8xlarge": (1, 32, 256, 900)}),
    **_gpu("p4d", "A100", 40, 8.0, {"24xlarge": (8, 96, 1152, 8000)}),
    **_gpu("p4de", "A100", 80, 8.0, {"24xlarge": (8, 96, 1152, 8000)}),
    **_gpu(
        "p5",
        "H100",
        80,
        9.0,
        {"4xlarge": (1, 16, 256, 3800), "48xlarge": (8, 192, 2048, 30400)},
    ),
    **_gpu("p5e", "H200", 141, 9.0, {"48xlarge": (8, 192, 2048, 30400)}),
    **_gpu("p5en", "H200", 141, 9.0, {"48xlarge": (8, 192, 2048, 30400)}),
    **_gpu("p6-b200", "B200", 179, 10.0, {"48xlarge": (8, 192, 2048, 30400)}),
    **_cpu("m5", 4),
    **_cpu("m6i", 4),
    **_cpu("m7i", 4),
    **_cpu("c6i", 2),
    **_cpu("c7i", 2),
    **_cpu("r6i", 8),
    **_cpu("r7i", 8),
}


def max_pods(types: Iterable[InstanceType]) -> int:
    """Return the pods per node of a group, which all of its nodes have: as many as each of its types can."""
    return min(known.max_pods for known in types)


GPU_FAMILIES: tuple[str, ...] = tuple(dict.fromkeys(t.family for t in INSTANCE_TYPES.values() if t.gpus))
CPU_FAMILIES: tuple[str, ...] = tuple(dict.fromkeys(t.family for t in INSTANCE_TYPES.values() if not t.gpus))

# Families that people ask for and cannot have: family -> why, as the middle of a sentence.
_TOO_OLD = "Triton needs compute capability 7.5 or more since 24.11"
UNSUITABLE_FAMILIES: Mapping[str, str] = {
    "p2": f"its K80 has compute capability 3.7 and {_TOO_OLD}",
    "p3": f"its V100 has compute capability 7.0 and {_TOO_OLD}",
    "p3dn": f"its V100 has compute capability 7.0 and {_TOO_OLD}",
    "g3": f"its M60 has compute capability 5.2 and {_TOO_OLD}",
    "g3s": f"its M60 has compute capability 5.2 and {_TOO_OLD}",
    "g4ad": "its GPU is AMD's and Triton's GPU backends need an NVIDIA one",
    "g5g": "it is an ARM machine and EKS has no AL2023 NVIDIA AMI for x86_64 images on it",
    "inf1": "it has no NVIDIA GPU but AWS Inferentia",
    "inf2": "it has no NVIDIA GPU but AWS Inferentia",
    "trn1": "it has no NVIDIA GPU but AWS Trainium",
}

# Capacity Blocks for ML exist for these families only (EC2 user guide, Capacity Blocks).
CAPACITY_BLOCK_FAMILIES = frozenset({"p4d", "p4de", "p5", "p5e", "p5en", "p6-b200"})

# Regions with each family, as EC2's DescribeInstanceTypeOfferings lists them (2026). The zones inside a region are looked
# up when the program runs.
_FAMILY_REGIONS: Mapping[str, str] = {
    "g4dn": "af-south-1 ap-east-1 ap-northeast-1 ap-northeast-2 ap-northeast-3 ap-south-1 ap-southeast-1 ap-southeast-2"
    " ca-central-1 eu-central-1 eu-north-1 eu-south-1 eu-west-1 eu-west-2 eu-west-3 me-south-1 sa-east-1 us-east-1"
    " us-east-2 us-west-1 us-west-2",
    "g5": "ap-east-1 ap-northeast-1 ap-northeast-2 ap-south-1 ap-southeast-2 ap-southeast-3 ca-central-1 eu-central-1"
    " eu-north-1 eu-south-2 eu-west-1 eu-west-2 eu-west-3 il-central-1 me-central-1 sa-east-1 us-east-1 us-east-2"
    " us-west-2",
    "g6": "ap-northeast-1 ap-northeast-2 ap-south-1 ap-south-2 ap-southeast-2 ap-southeast-5 ca-central-1 eu-central-1"
    " eu-central-2 eu-north-1 eu-south-2 eu-west-2 eu-west-3 me-central-1 sa-east-1 us-east-1 us-east-2 us-west-2",
    "g6e": "ap-northeast-1 ap-northeast-2 ap-northeast-3 ap-south-1 ap-south-2 eu-central-1 eu-north-1 eu-south-2"
    " me-central-1 us-east-1 us-east-2 us-west-2",
    "gr6": "ap-northeast-1 ap-northeast-2 ap-south-1 ap-southeast-2 ap-southeast-5 ca-central-1 eu-central-1 eu-central-2"
    " eu-north-1 eu-south-2 eu-west-2 eu-west-3 sa-east-1 us-east-1 us-east-2 us-west-2",
    "p4d": "ap-northeast-1 ap-northeast-2 ap-south-1 ap-southeast-2 ca-central-1 eu-central-1 eu-north-1 eu-west-1"
    " eu-west-2 sa-east-1 us-east-1 us-east-2 us-west-2",
    "p4de": "ap-northeast-1 ap-southeast-1 eu-central-1 il-central-1 us-east-1 us-west-2",
    "p5": "ap-northeast-1 ap-northeast-2 ap-south-1 ap-southeast-2 ap-southeast-3 ca-central-1 eu-north-1 eu-west-2"
    " sa-east-1 us-east-1 us-east-2 us-west-1 us-west-2",
    "p5e": "ap-southeast-2 ap-southeast-3 eu-north-1 eu-west-2 sa-east-1 us-east-2 us-west-2",
    "p5en": "ap-northeast-1 ap-northeast-2 ap-south-1 ap-southeast-3 eu-north-1 eu-south-2 me-central-1 us-east-1 us-east-2"
    " us-west-1 us-west-2",
    "p6-b200": "ap-south-1 ap-south-2 eu-north-1 eu-west-3 us-east-1 us-east-2 us-west-2",
    "c6i": "af-south-1 ap-east-1 ap-northeast-1 ap-northeast-2 ap-northeast-3 ap-south-1 ap-south-2 ap-southeast-1"
    " ap-southeast-2 ap-southeast-5 ca-central-1 ca-west-1 eu-central-1 eu-north-1 eu-south-1 eu-west-1 eu-west-2 eu-west-3"
    " il-central-1 me-south-1 sa-east-1 us-east-1 us-east-2 us-west-1 us-west-2",
    "c7i": "af-south-1 ap-east-1 ap-northeast-1 ap-northeast-2 ap-northeast-3 ap-south-1 ap-south-2 ap-southeast-1"
    " ap-southeast-2 ap-southeast-3 ap-southeast-4 ap-southeast-5 ca-central-1 ca-west-1 eu-central-1 eu-central-2"
    " eu-north-1 eu-south-1 eu-south-2 eu-west-1 eu-west-2 eu-west-3 il-central-1 me-central-1 sa-east-1 us-east-1"
    " us-east-2 us-west-1 us-west-2",
    "m5": "af-south-1 ap-east-1 ap-northeast-1 ap-northeast-2 ap-northeast-3 ap-south-1 ap-south-2 ap-southeast-1"
    " ap-southeast-2 ap-southeast-3 ap-southeast-4 ca-central-1 ca-west-1 eu-central-1 eu-central-2 eu-north-1 eu-south-1"
    " eu-south-2 eu-west-1 eu-west-2 eu-west-3 il-central-1 me-central-1 me-south-1 sa-east-1 us-east-1 us-east-2 us-west-1"
    " us-west-2",
    "r6i": "af-south-1 ap-east-1 ap-northeast-1 ap-northeast-2 ap-northeast-3 ap-south-1 ap-south-2 ap-southeast-1"
    " ap-southeast-2 ap-southeast-5 ca-central-1 ca-west-1 eu-central-1 eu-central-2 eu-north-1 eu-south-1 eu-west-1"
    " eu-west-2 eu-west-3 il-central-1 me-central-1 me-south-1 sa-east-1 us-east-1 us-east-2 us-west-1 us-west-2",
    "r7i": "ap-northeast-1 ap-northeast-2 ap-northeast-3 ap-south-1 ap-south-2 ap-southeast-1 ap-southeast-2 ap-southeast-3"
    " ap-southeast-4 ap-southeast-5 ca-central-1 eu-central-1 eu-north-1 eu-south-1 eu-south-2 eu-west-1 eu-west-2"
    " eu-west-3 sa-east-1 us-east-1 us-east-2 us-west-1 us-west-2",
    "m6i": "af-south-1 ap-east-1 ap-northeast-1 ap-northeast-2 ap-northeast-3 ap-south-1 ap-south-2 ap-southeast-1"
    " ap-southeast-2 ap-southeast-3 ap-southeast-5 ca-central-1 ca-west-1 eu-central-1 eu-central-2 eu-north-1 eu-south-1"
    " eu-west-1 eu-west-2 eu-west-3 il-central-1 me-central-1 me-south-1 sa-east-1 us-east-1 us-east-2 us-west-1"
    " us-west-2",
    "m7i": "af-south-1 ap-east-1 ap-northeast-1 ap-northeast-2 ap-northeast-3 ap-south-1 ap-south-2 ap-southeast-1"
    " ap-southeast-2 ap-southeast-3 ap-southeast-4 ap-southeast-5 ca-central-1 eu-central-1 eu-central-2 eu-north-1"
    " eu-south-1 eu-south-2 eu-west-1 eu-west-2 eu-west-3 il-central-1 me-central-1 sa-east-1 us-east-1 us-east-2"
    " us-west-1 us-west-2",
}
FAMILY_REGIONS: Mapping[str, frozenset[str]] = {
    family: frozenset(regions.split()) for family, regions in _FAMILY_REGIONS.items()
}

# Those that have EKS. Of GovCloud and China the table above knows no families: EC2 says when the program runs.
_REGIONS: Mapping[str, str] = {
    "aws": "af-south-1 ap-east-1 ap-east-2 ap-northeast-1 ap-northeast-2 ap-northeast-3 ap-south-1 ap-south-2 ap-southeast-1"
    " ap-southeast-2 ap-southeast-3 ap-southeast-4 ap-southeast-5 ap-southeast-6 ap-southeast-7 ca-central-1 ca-west-1"
    " eu-central-1 eu-central-2 eu-north-1 eu-south-1 eu-south-2 eu-west-1 eu-west-2 eu-west-3 il-central-1 me-central-1"
    " me-south-1 mx-central-1 sa-east-1 us-east-1 us-east-2 us-west-1 us-west-2",
    "aws-us-gov": "us-gov-east-1 us-gov-west-1",
    "aws-cn": "cn-north-1 cn-northwest-1",
}
REGIONS: Mapping[str, str] = {region: partition for partition, there in _REGIONS.items() for region in there.split()}
"""The partition of each region that has EKS."""
LISTED_REGIONS: frozenset[str] = frozenset().union(*FAMILY_REGIONS.values())
"""The regions of which `FAMILY_REGIONS` says what they have."""


def partition_of(region: str) -> str:
    """Return the partition of a region: `aws`, `aws-us-gov` or `aws-cn`."""
    return next((f"aws-{part}" for part in ("us-gov", "cn") if region.startswith(f"{part}-")), "aws")
