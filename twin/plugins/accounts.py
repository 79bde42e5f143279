"""Create and delete a chart's service accounts and permissions, as Helm would, for programs that the twin runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twin.cluster.kube_api import KubeClient, Object
from twin.cluster.kube_errors import ApiError
from twin.plugins.errors import PluginError
from twin.releases.chart import Chart


def install(client: KubeClient, chart: Chart, namespace: str, values: Mapping[str, Any]) -> None:
    """Create the objects that a chart's programs need; none for a chart without programs. Raises PluginError."""
    for item in _objects(chart, namespace, values):
        try:
            client.apply(_path(client, item), item)
        except ApiError as error:
            raise PluginError(f"chart {chart.name}, {item['kind']} {item['metadata']['name']}: {error}") from error


def remove(client: KubeClient, chart: Chart, namespace: str, values: Mapping[str, Any]) -> None:
    """Delete these objects; missing ones are ignored. Raises PluginError."""
    for item in reversed(_objects(chart, namespace, values)):
        try:
            client.delete(_path(client, item))
        except ApiError as error:
            raise PluginError(f"chart {chart.name}, {item['kind']} {item['metadata']['name']}: {error}") from error


def _objects(chart: Chart, namespace: str, values: Mapping[str, Any]) -> list[Object]:
    # Imported here, because only a deployment needs these, not each start of the plugin.
    from twin.host.tools import ToolError
    from twin.releases import go_module

    try:
        return go_module.accounts(chart, namespace, values)
    except ToolError as error:
        raise PluginError(f"chart {chart.name}: {error}") from error


def _path(client: KubeClient, item: Object) -> str:
    served = client.kind(item["apiVersion"], item["kind"])
    assert served is not None, f"the API server serves no {item['kind']}"
    return served.path(item["metadata"].get("namespace"), item["metadata"]["name"])
