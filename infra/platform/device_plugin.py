"""The NVIDIA device plugin: what makes `nvidia.com/gpu` a resource that pods can ask for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as k8s
import yaml

from infra.platform import charts
from infra.platform.third_party import release
from spec.gpu_pool import GPU_RESOURCE, sharing_config
from spec.names import DEVICE_PLUGIN_NAMESPACE
from spec.settings.gpu import Sharing
from spec.versions import NVIDIA_DEVICE_PLUGIN

_EXCLUSIVE = "exclusive"


@dataclass(frozen=True)
class DevicePluginArgs:
    kubernetes: k8s.Provider
    sharing: Sequence[Sharing]
    """How the GPUs of each pool are shared."""


class DevicePlugin(pulumi.ComponentResource):
    """The pinned chart, with one named configuration for each way of sharing that a pool uses.

    A node says through its label `nvidia.com/device-plugin.config` which configuration is its own.
    """

    def __init__(self, name: str, args: DevicePluginArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("triton:platform:DevicePlugin", name, None, opts)
        child = pulumi.ResourceOptions(parent=self, provider=args.kubernetes)
        namespace = k8s.core.v1.Namespace(
            f"{name}-namespace",
            metadata=k8s.meta.v1.ObjectMetaArgs(
                name=DEVICE_PLUGIN_NAMESPACE,
                # It mounts the kubelet's device socket, and MPS wants hostPID.
                labels={"pod-security.kubernetes.io/enforce": "privileged"},
            ),
            opts=child,
        )
        release(
            f"{name}-release",
            NVIDIA_DEVICE_PLUGIN,
            DEVICE_PLUGIN_NAMESPACE,
            values(args.sharing),
            pulumi.ResourceOptions(parent=self, provider=args.kubernetes, depends_on=[namespace]),
        )
        self.register_outputs({})


def values(sharing: Sequence[Sharing]) -> dict[str, Any]:
    """The chart's values: `helm-values/nvidia-device-plugin/base.yaml` and what follows from the pools."""
    computed: dict[str, Any] = {
        "config": {"default": _EXCLUSIVE, "map": sharing_configs(sharing)},
    }
    if any(pool.strategy == "mps" for pool in sharing):
        # The MPS daemon runs only where GPU feature discovery has found the GPU capable of it.
        computed["gfd"] = {"enabled": True}
    return charts.merge(charts.base_values(NVIDIA_DEVICE_PLUGIN.name), computed)


def sharing_configs(sharing: Sequence[Sharing]) -> dict[str, str]:
    """Configuration name -> the plugin's configuration file, for every way of sharing in use and the default."""
    configs = {_EXCLUSIVE: _text({"version": "v1", "flags": {"migStrategy": "none"}})}
    for way in sharing:
        if way.strategy == "mig":
            # `mixed` names the resource after the profile; with `single` an instance would be called a GPU.
            configs[sharing_config(way)] = _text({"version": "v1", "flags": {"migStrategy": "mixed"}})
        elif way.strategy != "exclusive":
            configs[sharing_config(way)] = _text({"version": "v1", "sharing": _shared(way)})
    return dict(sorted(configs.items()))


def _shared(way: Sharing) -> dict[str, Any]:
    resources = [{"name": GPU_RESOURCE, "replicas": way.replicas}]
    if way.strategy == "mps":
        return {"mps": {"renameByDefault": True, "resources": resources}}
    # Asking for two slices does not give twice the GPU; such a pod is refused instead of misled.
    return {
        "timeSlicing": {
            "renameByDefault": True,
            "failRequestsGreaterThanOne": True,
            "resources": resources,
        }
    }


def _text(config: dict[str, Any]) -> str:
    return yaml.safe_dump(config, sort_keys=False)
