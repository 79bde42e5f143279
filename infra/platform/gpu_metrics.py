"""NVIDIA's DCGM exporter: GPU metrics with the pod that uses each GPU."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pulumi

from infra.aws.cluster_access import ClusterAccess
from infra.platform.installed_chart import InstalledChart
from spec.charts import DCGM_EXPORTER
from spec.helm_values import base_values, merge
from spec.names import MONITORING_NAMESPACE
from spec.settings.gpu import GpuPool, Sharing


class GpuMetrics(InstalledChart):
    """The pinned chart, on GPU nodes only, in the monitoring namespace.

    That namespace allows privileged pods, and reading the profiling counters needs SYS_ADMIN. `opts.depends_on` has to name
    the monitoring, which creates that namespace and installs the kind ServiceMonitor.
    """

    def __init__(
        self, name: str, cluster: ClusterAccess, pools: Iterable[GpuPool], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("triton:platform:GpuMetrics", name, cluster, opts)
        self._install(DCGM_EXPORTER, MONITORING_NAMESPACE, values([pool.sharing for pool in pools]))
        self.register_outputs({})


def values(sharing: Iterable[Sharing]) -> dict[str, Any]:
    """Return the chart's values for the pools' ways of sharing GPUs."""
    base = base_values(DCGM_EXPORTER.name)
    if all(way.strategy in ("exclusive", "mig") for way in sharing):
        return base
    # Without it, metrics of a shared GPU name no pod. With it, each pod gets the metrics of the whole GPU.
    shared = [{"name": "KUBERNETES_VIRTUAL_GPUS", "value": "true"}]
    return merge(base, {"extraEnv": [*base.get("extraEnv", []), *shared]})
