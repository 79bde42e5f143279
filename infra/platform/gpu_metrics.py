"""NVIDIA's DCGM exporter: what the GPUs themselves say, with the pod that uses each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from infra.platform import charts
from infra.platform.third_party import release
from spec.settings.gpu import Sharing
from spec.versions import DCGM_EXPORTER


@dataclass(frozen=True)
class GpuMetricsArgs:
    kubernetes: k8s.Provider
    namespace: str
    """An existing one whose pods may be privileged: reading the profiling counters takes SYS_ADMIN."""
    sharing: Sequence[Sharing]
    """How the GPUs of each pool are shared."""


class GpuMetrics(pulumi.ComponentResource):
    """The pinned chart, on GPU nodes only.

    Give `opts.depends_on` what serves the kind ServiceMonitor.
    """

    def __init__(self, name: str, args: GpuMetricsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("triton:platform:GpuMetrics", name, None, opts)
        release(
            f"{name}-release",
            DCGM_EXPORTER,
            args.namespace,
            values(args.sharing),
            pulumi.ResourceOptions(parent=self, provider=args.kubernetes),
        )
        self.register_outputs({})


def values(sharing: Sequence[Sharing]) -> dict[str, Any]:
    """The chart's values: `helm-values/dcgm-exporter/base.yaml` and what follows from the pools."""
    base = charts.base_values(DCGM_EXPORTER.name)
    if all(way.strategy in ("exclusive", "mig") for way in sharing):
        return base
    # Without it, a GPU that several pods share has no pod at all. Each of them gets the numbers of the whole GPU.
    shared = [{"name": "KUBERNETES_VIRTUAL_GPUS", "value": "true"}]
    return charts.merge(base, {"extraEnv": [*base.get("extraEnv", []), *shared]})
