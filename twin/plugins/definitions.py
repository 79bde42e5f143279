"""Install the custom resource definitions of a chart that the twin does not install, so that objects can use them."""

from __future__ import annotations

import time

from twin.cluster.kube_api import KubeClient, Object, object_path
from twin.cluster.kube_errors import ApiError
from twin.plugins.errors import PluginError
from twin.releases.chart import Chart

_SERVED_SECONDS = 60.0
"""The longest measured time for ten definitions of 5 MB was 3 s."""
_POLL_SECONDS = 0.2


def install(client: KubeClient, chart: Chart) -> None:
    """Apply the definitions of a chart and wait until the API server serves their kinds. Raises PluginError.

    They stay when the release is deleted, as Helm does with definitions in a chart's `crds` folder. Definitions from
    templates (keda, karpenter-crd) would be deleted by Helm, together with every object of their kinds.
    """
    # Imported here, because only a deployment needs these, not each start of the plugin.
    from twin.host.tools import ToolError
    from twin.releases import go_module

    try:
        crds = go_module.definitions(chart)
    except ToolError as error:
        raise PluginError(f"chart {chart.name}: {error}") from error
    for crd in crds:
        _apply(client, crd)
    deadline = time.monotonic() + _SERVED_SECONDS
    for crd in crds:
        api_version, kind = _served_as(crd)
        while client.kind(api_version, kind) is None:
            if time.monotonic() > deadline:
                raise PluginError(
                    f"the API server does not serve {kind} of {api_version} {_SERVED_SECONDS:.0f} s after its CRD"
                )
            time.sleep(_POLL_SECONDS)


def _apply(client: KubeClient, crd: Object) -> None:
    name = crd["metadata"]["name"]
    try:
        client.apply(object_path("apiextensions.k8s.io/v1", "customresourcedefinitions", name=name), crd)
    except ApiError as error:
        raise PluginError(f"the API server refused the definition {name}: {error}") from error


def _served_as(crd: Object) -> tuple[str, str]:
    spec = crd["spec"]
    version = next(version["name"] for version in spec["versions"] if version["served"])
    return f"{spec['group']}/{version}", spec["names"]["kind"]
