"""EC2 instance types of this platform: GPUs, memory, network and AMI family. Prices are in stackctl/cost/prices.

Hardware numbers are from EC2's DescribeInstanceTypes. Reserved resources follow the EKS AL2023 node bootstrap.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from spec import kubelet

GPU_AMI = "AL2023_x86_64_NVIDIA"
CPU_AMI = "AL2023_x86_64_STANDARD"

# The share of EC2 memory that kernel and firmware use and the kubelet never sees. Better too high than too low: if a node is
# overestimated, a pod finds no room on it (docs/facts/gpu-nodes.md#memory-of-a-node).
INVISIBLE_MEMORY_SHARE = 0.06


@dataclass(frozen=True)
class MigProfile:
    """A MIG profile: the number of equal instances that fit on a GPU, and the memory of each in MiB."""

    instances: int
    memory_mib: int


# From `nvidia-smi mig -lgip`, by GPU and its GiB: the profiles that fit more than once. The 80 GiB values are for the A100;
# an H100 has up to 2 % more memory per instance.
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

    Memory is in GiB, `gpu_memory_gib` is per GPU, and `nvme_gib` is the total instance store (0: none). `compute_capability`
    is NVIDIA's. `pods_limit` is the number of pods that it has addresses for, if that is lower than usual.
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
        """Return the MIG profiles of each GPU, by name; empty if MIG is not supported."""
        return _MIG_PROFILES.get((self.gpu_name, self.gpu_memory_gib), {})

    @property
    def ami_type(self) -> str:
        """Return the AMI type of an EKS node group: the NVIDIA variant for GPU types, the standard one for others."""
        return GPU_AMI if self.gpus else CPU_AMI

    @property
    def max_pods(self) -> int:
        """Return the maximum pods per node, limited by managed node groups and by the available addresses."""
        most = kubelet.max_pods(self.vcpus)
        return min(most, self.pods_limit or most)

    @property
    def allocatable_mib(self) -> int:
        """Return the MiB of memory that the kubelet leaves to pods, including DaemonSet pods.

        On a g5.xlarge that is about 13.5 GiB (docs/facts/gpu-nodes.md#memory-of-a-node).
        """
        total = self.memory_gib * 1024
        return int(total - total * INVISIBLE_MEMORY_SHARE - kubelet.reserved_memory_mib(self.max_pods))

    def allocatable_disk_gib(self, root_gib: int) -> int:
        """Return the GiB of disk that the kubelet leaves to pods. The disk is the instance store or a root volume of
        `root_gib` GiB."""
        return kubelet.disk_for_pods_gib(self.nvme_gib or root_gib)

    @property
    def allocatable_cpu_millis(self) -> int:
        """Return the thousandths of a vCPU that the kubelet leaves to pods, including DaemonSet pods."""
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
    """Return the sizes of one CPU family with this many GiB for each vCPU."""
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
    """Return the maximum pods per node of a group, which is equal on all nodes: the minimum over its types."""
    return min(known.max_pods for known in types)


GPU_FAMILIES: tuple[str, ...] = tuple(dict.fromkeys(t.family for t in INSTANCE_TYPES.values() if t.gpus))
CPU_FAMILIES: tuple[str, ...] = tuple(dict.fromkeys(t.family for t in INSTANCE_TYPES.values() if not t.gpus))

# Known families that are not supported: family -> reason, as the middle of a sentence.
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

# Capacity Blocks for ML exist only for these families (EC2 user guide, Capacity Blocks).
CAPACITY_BLOCK_FAMILIES = frozenset({"p4d", "p4de", "p5", "p5e", "p5en", "p6-b200"})

# Regions of each family, from EC2's DescribeInstanceTypeOfferings (2026). The program looks up the zones of a region when it
# runs.
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

# Regions with EKS. The table above has no GovCloud and China regions; for these, the program asks EC2 when it runs.
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
"""The regions whose instance families `FAMILY_REGIONS` lists."""


def partition_of(region: str) -> str:
    """Return the partition of a region: `aws`, `aws-us-gov` or `aws-cn`."""
    return next((f"aws-{part}" for part in ("us-gov", "cn") if region.startswith(f"{part}-")), "aws")
