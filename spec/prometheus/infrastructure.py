"""Alerts about Triton's infrastructure: GPUs, their nodes, CPU limits, new nodes and the pod autoscaler.

EKS repairs some faults by itself. These alerts still report them, because a GPU that fails every week is a fault too.
"""

from __future__ import annotations

from spec.names import TRITON_CONTAINER
from spec.prometheus.rule import Group, Rule, alert, group, series
from spec.settings.model import Settings

FAULTS = (48, 64, 74, 79, 95, 119)
"""Xid codes after which a GPU needs a reset or a new node: double-bit error, row remap failure, NVLink, fell off the bus,
uncontained error, GSP timeout (https://docs.nvidia.com/deploy/xid-errors/).
"""
THROTTLED_SHARE = 0.05

_GPU = "max by (Hostname, gpu, UUID)"
_WHERE = "GPU {{ $labels.gpu }} of {{ $labels.Hostname }}"


def infrastructure_group(settings: Settings) -> Group:
    """Return the alerts for the components of a stack."""
    rules = [_cpu_throttled()]
    if settings.gpu.pools:
        rules += _gpus()
    if settings.node_autoscaler == "karpenter":
        rules.append(_launches())
    if settings.pod_autoscaler == "keda":
        rules.append(_scalers())
    return group("triton.infrastructure", rules)


def _gpus() -> list[Rule]:
    last = f"{_GPU} (DCGM_FI_DEV_XID_ERRORS)"
    capacity, allocatable = (
        f'max by (node) (kube_node_status_{kind}{{resource="nvidia_com_gpu"}})' for kind in ("capacity", "allocatable")
    )
    return [
        alert(
            "TritonGpuFault",
            "\nor\n".join(f"({last} == {code})" for code in FAULTS),
            lasting="0m",
            severity="warning",
            summary=f"{_WHERE} reported Xid {{{{ $value }}}}",
            description="The last Xid error is a fault of the hardware. Work on this GPU fails or will fail until it is "
            "reset or its node is replaced. The alert ends with the node.",
        ),
        alert(
            "TritonGpuRowRemapFailure",
            f"{_GPU} (DCGM_FI_DEV_ROW_REMAP_FAILURE) > 0",
            lasting="0m",
            severity="warning",
            summary=f"{_WHERE} has no spare memory rows left",
            description="A faulty row of the GPU's memory could not be replaced. The next error there corrupts or ends "
            "work. The card has to be replaced.",
        ),
        alert(
            "TritonGpuNotAllocatable",
            f"{capacity} - {allocatable} > 0",
            lasting="10m",
            severity="warning",
            summary="{{ $value }} GPUs of {{ $labels.node }} cannot be used",
            description="The node has more GPUs than Kubernetes can give to pods: the device plugin found one unhealthy. "
            "The node costs as much as before.",
        ),
    ]


def _cpu_throttled() -> Rule:
    throttled, periods = (
        f"sum by (namespace, pod) (rate({series(f'container_cpu_cfs_{kind}_total', container=TRITON_CONTAINER)}[5m]))"
        for kind in ("throttled_periods", "periods")
    )
    return alert(
        "TritonCpuThrottled",
        f"{throttled}\n/ ({periods} > 0)\n> {THROTTLED_SHARE:g}",
        lasting="15m",
        severity="warning",
        summary="{{ $labels.pod }} is throttled in {{ $value | humanizePercentage }} of the CPU periods",
        description="All threads of the server, those for probes included, stop for the rest of a period of 100 ms when "
        "the pod has used its CPU limit. A pod without a limit has no such periods.",
    )


def _launches() -> Rule:
    return alert(
        "TritonNodeLaunchFailing",
        'sum by (error) (increase(karpenter_cloudprovider_errors_total{method="Create"}[15m])) > 0',
        lasting="15m",
        severity="warning",
        summary="Karpenter cannot start nodes: {{ $labels.error }}",
        description="For a quarter of an hour attempts to start a node have failed. Pods that need one stay Pending. "
        "InsufficientCapacityError: AWS has none of the instance types in these zones.",
    )


def _scalers() -> Rule:
    return alert(
        "TritonScalerErrors",
        "sum by (scaledObject, scaler) (rate(keda_scaler_detail_errors_total[5m])) > 0",
        lasting="10m",
        severity="warning",
        summary="KEDA cannot read {{ $labels.scaler }} of {{ $labels.scaledObject }}",
        description="A query of KEDA has failed for 10 minutes. While it does, the number of pods follows the other "
        "triggers, or the fallback, or does not change.",
    )
