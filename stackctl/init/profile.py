"""Write the stack file for a first try: a cluster that reads text in pictures.

It has one small GPU node, or CPU nodes only.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from spec.settings.nodes import CPU_POOL_NAME
from spec.versions import DEFAULT_KUBERNETES, DEFAULT_TRITON_VERSION

FAMILIES = (("g5.xlarge", "g5.2xlarge"), ("g6.xlarge", "g6.2xlarge"), ("g4dn.xlarge", "g4dn.2xlarge"))
"""Types with one GPU for a first try. The first family that enough zones offer is used."""
SYSTEM_TYPE = "m7i.large"
CPU_TYPES = ("m7i.xlarge", "m6i.xlarge")
"""Types of Triton's nodes in a first try without a GPU."""
ENVIRONMENT = "dev"
ZONES = 2
CAPACITIES = ("spot", "on-demand")
"""The cheapest capacity first."""


@dataclass(frozen=True)
class Found:
    """Facts of the account, and answers of a person: `api_cidrs` and `cost_center`.

    Without `gpu_types` the stack has no GPU.
    """

    account: str
    caller: str
    owner: str
    region: str
    gpu_types: tuple[str, ...]
    capacity: str
    image: str
    api_cidrs: tuple[str, ...]
    cost_center: str


def text(found: Found) -> str:
    """Return the whole stack file."""
    tags = f"{{owner: {_text(found.owner)}, cost-center: {_text(found.cost_center)}}}"
    return f"""\
# yaml-language-server: $schema=../spec/stack-file.schema.json
# A stack for trying things. Every key: docs/stack-file.md.
config:
  aws:region: {found.region}
  aws:allowedAccountIds: ["{found.account}"]
  aws:defaultTags:
    tags: {tags}
  triton-eks:environment: {ENVIRONMENT}
  triton-eks:tags: {tags}
  triton-eks:allowDestroy: true  # everything can be deleted at once; remove it before there is something to lose
  triton-eks:permissionsBoundary: false  # roles without a limit; remove it before GitHub's workflows deploy the stack
  triton-eks:network:
    cidr: 10.20.0.0/16
    zones: {ZONES}
    nat: single
    endpoints: minimal
    flowLogRetentionDays: 14
  triton-eks:cluster:
    version: "{DEFAULT_KUBERNETES}"
    endpoint: public
    publicAccessCidrs: {_list(found.api_cidrs)}  # who reaches the Kubernetes API
    # Whoever runs the first `pulumi up` is an administrator without being listed, and must not be: it is meant to be
    # {found.caller}
    adminRoleArns: []
    deletionProtection: false
    logRetentionDays: 30
{_nodes(found)}
  triton-eks:models:
    oldReleaseDays: 14
{_serving(found)}
  triton-eks:triton:
    version: "{DEFAULT_TRITON_VERSION}"
    image: {found.image}
    pool: {"gpu" if found.gpu_types else CPU_POOL_NAME}
    gpus: {1 if found.gpu_types else 0}
    replicas: 1
    cpu: "3"
    memoryGiB: {12 if found.gpu_types else 8}
"""


def _nodes(found: Found) -> str:
    system = f"""\
  triton-eks:nodes:
    autoscaler: karpenter  # it starts the nodes for Triton
    system: {{instanceTypes: [{SYSTEM_TYPE}], min: 2, desired: 2, max: 2, diskGiB: 50}}"""
    if not found.gpu_types:
        return f"""\
{system}
    cpu: {{instanceTypes: [{", ".join(CPU_TYPES)}], max: 2, diskGiB: 100}}"""
    falls_back = "  # Karpenter falls back to on-demand" if found.capacity == "spot" else ""
    return f"""\
{system}
  triton-eks:gpu:
    pools:
      - name: gpu
        instanceTypes: [{", ".join(found.gpu_types)}]
        capacity: {found.capacity}{falls_back}
        min: 0
        desired: 0
        max: 2
        diskGiB: 200"""


def _serving(found: Found) -> str:
    """Return the section `serving` for the models of `make models`. Without a GPU, the SLOs are longer."""
    if not found.gpu_types:
        return """\
    # The models that `make models` writes, on CPUs.
    serving:
      filetype: {device: cpu, sloP95Ms: 500, expectedRate: 2, peakRate: 4}
      text_in_picture: {device: cpu, sloP95Ms: 10000, expectedRate: 0.2, peakRate: 0.5, warmup: []}
      text_detection: {device: cpu, sloP95Ms: 5000, expectedRate: 0.2, peakRate: 0.5}
      text_direction: {device: cpu, sloP95Ms: 2000, expectedRate: 0.4, peakRate: 1}
      text_recognition: {device: cpu, sloP95Ms: 5000, expectedRate: 0.4, peakRate: 1}
      speech:
        device: cpu
        sloP95Ms: 20
        expectedRate: 31
        peakRate: 124
        sequence: {strategy: oldest, maxIdleMs: 5000, maxCandidates: 64}"""
    return """\
    # The models that `make models` writes. gpuMemoryMiB: docs/serving.md#the-models-of-the-stacks.
    serving:
      filetype: {device: gpu, gpuMemoryMiB: 400, sloP95Ms: 100, expectedRate: 5, peakRate: 20}
      text_in_picture: {device: cpu, sloP95Ms: 2000, expectedRate: 1, peakRate: 4, instances: 2, warmup: []}
      text_detection: {device: gpu, gpuMemoryMiB: 2100, sloP95Ms: 500, expectedRate: 1, peakRate: 4}
      text_direction: {device: gpu, gpuMemoryMiB: 100, sloP95Ms: 250, expectedRate: 2, peakRate: 8}
      text_recognition: {device: gpu, gpuMemoryMiB: 1100, sloP95Ms: 500, expectedRate: 2, peakRate: 8}
      speech:
        device: cpu
        sloP95Ms: 20
        expectedRate: 31
        peakRate: 124
        sequence: {strategy: oldest, maxIdleMs: 5000, maxCandidates: 64}"""


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _list(values: tuple[str, ...]) -> str:
    return f"[{', '.join(map(_text, values))}]"
