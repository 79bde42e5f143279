"""EC2 instance types that spec/catalog.py lacks, described in the stack file: `triton-eks:instanceTypes`."""

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from spec.catalog import INSTANCE_TYPES, InstanceType
from spec.problem import Problem
from spec.settings.fields import Name
from spec.settings.kind import between, fraction_between, key_matching
from spec.settings.rule import Place, rule
from spec.settings.section import Section

_FEWEST_PODS = 16
"""DaemonSets use up to a dozen pods on a GPU node: network, proxy, volumes, devices, exporters, logs and traces."""

InstanceTypeName = Annotated[
    str,
    key_matching(
        r"[a-z][a-z0-9-]{1,30}\.[a-z0-9-]{1,30}", "is not an instance type", "give one as EC2 calls it, like g7e.2xlarge"
    ),
]


class InstanceFacts(Section):
    """The properties that `aws ec2 describe-instance-types` reports for a type, and its price."""

    guide: ClassVar[str] = "docs/aws.md#instance-types-and-regions"

    vcpus: Annotated[int, between(1, 1024, "vCPUs")] = Field(description="its vCPUs, like 8 (VCpuInfo.DefaultVCpus)")
    memory_gib: Annotated[int, between(1, 32_768, "GiB")] = Field(
        description="its memory in GiB, like 64 (MemoryInfo.SizeInMiB / 1024)"
    )
    architecture: Literal["x86_64", "arm64"] = Field(
        default="x86_64", description="that of its processor; the node images and containers are for x86_64"
    )

    gpus: Annotated[int, between(0, 16, "GPUs")] = Field(default=0, description="how many GPUs it has")
    gpu_name: Name | None = Field(
        default=None, description="the name of its GPU, like L40S; required with gpus, else forbidden"
    )
    gpu_memory_gib: Annotated[int, between(1, 1024, "GiB")] | None = Field(
        default=None, description="the memory of one GPU in whole GiB, like 44; required with gpus, else forbidden"
    )
    compute_capability: Annotated[float, fraction_between(1, 20, "as NVIDIA numbers them")] | None = Field(
        default=None,
        description="NVIDIA's compute capability of the GPU, like 8.9; required with gpus, else forbidden",
    )
    nvme_gib: Annotated[int, between(0, 1_048_576, "GiB")] = Field(
        default=0, description="the instance store in GiB, all of its disks together; 0: it has none"
    )
    max_pods: Annotated[int, between(_FEWEST_PODS, 250, "pods")] | None = Field(
        default=None,
        description="pods for which its network interfaces have addresses, with prefix delegation; without it: 110 below 30 "
        "vCPUs, else 250",
    )
    usd_per_hour: Annotated[float, fraction_between(0.001, 10_000, "US dollars an hour")] | None = Field(
        default=None, description="its price on demand in the stack's region; without it: that of the price table, or none"
    )

    def as_type(self, name: str) -> InstanceType:
        """Return the type in the form of the catalogue. Raises Absent if one of its values is invalid."""
        return InstanceType(
            name=name,
            gpu_name=self.gpu_name,
            gpus=self.gpus,
            gpu_memory_gib=self.gpu_memory_gib or 0,
            compute_capability=self.compute_capability,
            vcpus=self.vcpus,
            memory_gib=self.memory_gib,
            nvme_gib=self.nvme_gib,
            architecture=self.architecture,
            pods_limit=self.max_pods,
        )

    @rule
    def _images_run_on_it(self, at: Place) -> Iterator[Problem]:
        """Require an x86_64 processor."""
        if self.architecture != "x86_64":
            yield at.problem(
                "architecture",
                f"the node images and containers of this platform do not run on {self.architecture}; use a type of x86_64",
            )

    @rule
    def _something_is_left_for_pods(self, at: Place) -> Iterator[Problem]:
        """Require more CPU and memory than the kubelet reserves."""
        known = self.as_type(at.path.removeprefix("instanceTypes."))
        if known.allocatable_cpu_millis <= 0:
            yield at.problem("vcpus", f"{self.vcpus} vCPUs are what the kubelet takes; use a larger type")
        if known.allocatable_mib <= 0:
            yield at.problem("memoryGiB", f"{self.memory_gib} GiB are what the kubelet takes; use a larger type")

    @rule
    def _gpus_are_described(self, at: Place) -> Iterator[Problem]:
        """Require the GPUs' name, memory and compute capability in NVIDIA's form, and refuse these keys without GPUs."""
        for key, value in (
            ("gpuName", self.gpu_name),
            ("gpuMemoryGiB", self.gpu_memory_gib),
            ("computeCapability", self.compute_capability),
        ):
            if self.gpus and value is None:
                yield at.problem(key, "is missing; `aws ec2 describe-instance-types` and NVIDIA's list of CUDA GPUs have it")
            if not self.gpus and value is not None:
                yield at.problem(key, "is of a GPU, and gpus is 0; remove it, or give gpus")
        capability = self.compute_capability
        if capability is not None and capability != round(capability, 1):
            yield at.problem("computeCapability", f"{capability} is none of NVIDIA's, which have one decimal, like 8.9")

    @rule
    def _catalogue_says_the_same(self, at: Place) -> Iterator[Problem]:
        """Refuse values that differ from spec/catalog.py."""
        name = at.path.removeprefix("instanceTypes.")
        known = INSTANCE_TYPES.get(name)
        if known is None:
            return
        mine = self.as_type(name)
        for key, of_mine, of_catalogue in (
            ("vcpus", mine.vcpus, known.vcpus),
            ("memoryGiB", mine.memory_gib, known.memory_gib),
            ("gpus", mine.gpus, known.gpus),
            ("gpuName", mine.gpu_name, known.gpu_name),
            ("gpuMemoryGiB", mine.gpu_memory_gib, known.gpu_memory_gib),
            ("computeCapability", mine.compute_capability, known.compute_capability),
            ("architecture", mine.architecture, known.architecture),
            ("nvmeGiB", mine.nvme_gib, known.nvme_gib),
            ("maxPods", mine.max_pods, known.max_pods),
        ):
            if of_mine != of_catalogue:
                yield at.problem(
                    key, f"{of_mine} is not what spec/catalog.py has of {name}, {of_catalogue}; remove the description of it"
                )
