"""NVIDIA's DCGM exporter: the metrics of the GPUs, with the pod that uses each."""

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
    """The pinned chart, on GPU nodes only, in the namespace of the monitoring, whose pods may be privileged: reading the
    profiling counters takes SYS_ADMIN.

    Give `opts.depends_on` the monitoring, which brings that namespace and the kind ServiceMonitor.
    """

    def __init__(
        self, name: str, cluster: ClusterAccess, pools: Iterable[GpuPool], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("triton:platform:GpuMetrics", name, cluster, opts)
        self._install(DCGM_EXPORTER, MONITORING_NAMESPACE, values([pool.sharing for pool in pools]))
        self.register_outputs({})


def values(sharing: Iterable[Sharing]) -> dict[str, Any]:
    """Return the chart's values, for the ways in which the pools share their GPUs."""
    base = base_values(DCGM_EXPORTER.name)
    if all(way.strategy in ("exclusive", "mig") for way in sharing):
        return base
    # Without it, a GPU that several pods share has no pod at all. Each of them gets the numbers of the whole GPU.
    shared = [{"name": "KUBERNETES_VIRTUAL_GPUS", "value": "true"}]
    return merge(base, {"extraEnv": [*base.get("extraEnv", []), *shared]})
