"""The NVIDIA device plugin: makes `nvidia.com/gpu` a resource that pods can request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pulumi
import yaml

from infra.aws.cluster_access import ClusterAccess
from infra.platform.installed_chart import InstalledChart, chart_values
from spec.charts import NVIDIA_DEVICE_PLUGIN
from spec.gpu_pool import GPU_RESOURCE, sharing_config
from spec.names import DEVICE_PLUGIN_NAMESPACE
from spec.settings.gpu import GpuPool, Sharing

_EXCLUSIVE = "exclusive"


class DevicePlugin(InstalledChart):
    """The pinned chart, with one named configuration for each way of sharing GPUs that a pool uses.

    A node's label `nvidia.com/device-plugin.config` selects its configuration.
    """

    def __init__(
        self, name: str, cluster: ClusterAccess, pools: Sequence[GpuPool], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("triton:platform:DevicePlugin", name, cluster, opts)
        # It mounts the kubelet's device socket, and MPS needs hostPID.
        namespace = self._namespace(DEVICE_PLUGIN_NAMESPACE, "privileged")
        self._install(NVIDIA_DEVICE_PLUGIN, DEVICE_PLUGIN_NAMESPACE, values([pool.sharing for pool in pools]), namespace)
        self.register_outputs({})


def values(sharing: Sequence[Sharing]) -> dict[str, Any]:
    """Return the chart's values for the pools' ways of sharing GPUs."""
    computed: dict[str, Any] = {"config": {"default": _EXCLUSIVE, "map": sharing_configs(sharing)}}
    if any(way.strategy == "mps" for way in sharing):
        # The MPS daemon runs only if GPU feature discovery has found that the GPU supports it.
        computed["gfd"] = {"enabled": True}
    return chart_values(NVIDIA_DEVICE_PLUGIN, computed)


def sharing_configs(sharing: Sequence[Sharing]) -> dict[str, str]:
    """Return the plugin's configuration files by name: the default, and one for every way of sharing in use."""
    configs = {_EXCLUSIVE: _text({"version": "v1", "flags": {"migStrategy": "none"}})}
    for way in sharing:
        if way.strategy == "mig":
            # `mixed` names the resource after the profile; with `single` an instance would have the name of a whole GPU.
            configs[sharing_config(way)] = _text({"version": "v1", "flags": {"migStrategy": "mixed"}})
        elif way.strategy != "exclusive":
            configs[sharing_config(way)] = _text({"version": "v1", "sharing": _shared(way)})
    return dict(sorted(configs.items()))


def _shared(way: Sharing) -> dict[str, Any]:
    resources = [{"name": GPU_RESOURCE, "replicas": way.replicas}]
    if way.strategy == "mps":
        return {"mps": {"renameByDefault": True, "resources": resources}}
    # Two slices do not give a pod twice the GPU, so such a pod is refused instead of misled.
    return {
        "timeSlicing": {
            "renameByDefault": True,
            "failRequestsGreaterThanOne": True,
            "resources": resources,
        }
    }


def _text(config: dict[str, Any]) -> str:
    return yaml.safe_dump(config, sort_keys=False)
