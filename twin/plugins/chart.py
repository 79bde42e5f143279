"""``helm.v4.Chart`` on the twin: real Helm renders the chart, and each object becomes a separate resource.

Types, names and parents of the children match the official provider. So previews on the twin and on AWS list the same
resources.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pulumi.runtime.proto import provider_pb2

from twin.cluster.kube_api import KubeClient
from twin.cluster.kube_errors import Unreachable
from twin.plugins import chart_order, kube_rules
from twin.plugins.components import ChildOptions, Component, EngineStopping, Registered, urns
from twin.plugins.errors import NotSupported, PluginError
from twin.plugins.server import EngineLog
from twin.plugins.values import UNKNOWN, Values, has_unknown, is_asset, resource_reference, secret, without_nulls

TOKEN = "kubernetes:helm.sh/v4:Chart"

INPUTS = frozenset(
    {"chart", "name", "namespace", "resourcePrefix", "skipAwait", "skipCrds", "valueYamlFiles", "values", "version"}
)
"""The inputs that apply to a chart in a folder of the project."""

KEEP = "helm.sh/resource-policy"

_rendering = threading.Lock()
"""Helm is a library in another language; only one rendering at a time was tested."""


def build(component: Component, client: KubeClient, log: EngineLog, namespace: str) -> provider_pb2.ConstructResponse:
    """Register the chart and its objects. Raises PluginError with Helm's own message for a chart that does not render."""
    inputs = component.inputs
    _refuse_unsupported(inputs)
    component.register_self()
    if has_unknown(inputs):
        log.warning_once(
            f"chart {component.name}: some of its inputs are not known before other resources exist, "
            "so this preview does not list its objects"
        )
        return component.finish({"resources": UNKNOWN})
    objects = _render(component, client, log, inputs.get("namespace") or namespace)
    children = _register(component, objects)
    return component.finish({"resources": [resource_reference(child.urn, child.id) for child in children]})


def _register(component: Component, objects: Sequence[Values]) -> list[Registered]:
    """Register the objects as children, each as soon as its dependencies exist; return them in the chart's order.

    Raises EngineStopping, or PluginError with the engine's first refusal.
    """
    tasks: dict[int, Future[Registered]] = {}

    def register(manifest: Values, before: list[int]) -> Registered:
        options = ChildOptions(
            depends_on=urns(tasks[index].result() for index in before),
            retain_on_delete=kube_rules.annotation(manifest, KEEP) == "keep",
            secret_outputs=("data", "stringData") if manifest["kind"] == "Secret" else (),
        )
        name = child_name(component.inputs.get("resourcePrefix") or component.name, manifest)
        return component.register(type_token(manifest), name, _with_secrets(manifest, component.secret), options)

    # One thread for each object, because some wait for others.
    with ThreadPoolExecutor(max_workers=max(len(objects), 1)) as pool:
        for index, before in chart_order.sorted_with_dependencies(objects):
            tasks[index] = pool.submit(register, objects[index], before)
    errors = [error for task in tasks.values() if (error := task.exception()) is not None]
    for error in sorted(errors, key=lambda error: isinstance(error, EngineStopping)):
        raise error
    return [tasks[index].result() for index in range(len(objects))]


def type_token(manifest: Mapping[str, Any]) -> str:
    """Return ``kubernetes:apps/v1:Deployment``; the core group is written out: ``kubernetes:core/v1:Service``."""
    api_version = manifest["apiVersion"]
    return f"kubernetes:{api_version if '/' in api_version else f'core/{api_version}'}:{manifest['kind']}"


def child_name(prefix: str, manifest: Mapping[str, Any]) -> str:
    """Return ``<chart>:<namespace>/<name>``."""
    return f"{prefix}:{kube_rules.object_id(manifest)}"


def _refuse_unsupported(inputs: Mapping[str, Any]) -> None:
    unknown_keys = sorted(inputs.keys() - INPUTS)
    if unknown_keys:
        raise NotSupported(
            f"the twin renders charts that lie in a folder of the project and has no {', '.join(unknown_keys)}: "
            "extend twin/plugins/chart.py, or install a third-party chart as helm.v3.Release"
        )
    chart = inputs.get("chart")
    if not isinstance(chart, str):
        raise PluginError("chart: the path of the chart's folder is required")
    if chart != UNKNOWN and not Path(chart, "Chart.yaml").is_file():
        raise PluginError(f"chart: there is no Chart.yaml in {Path(chart).absolute()}")
    if chart != UNKNOWN and Path(chart, "crds").is_dir() and not inputs.get("skipCrds"):
        raise NotSupported(f"chart {chart} has a crds folder, which the twin does not install: extend twin/plugins/chart.py")


def _render(component: Component, client: KubeClient, log: EngineLog, namespace: str) -> list[Values]:
    from twin.releases import helm

    inputs = component.inputs
    kube_version, api_versions = _capabilities(client, log, helm.DEFAULT_KUBE_VERSION)
    try:
        with _value_files(inputs) as files, _rendering:
            objects = helm.render(
                inputs["chart"],
                name=inputs.get("name") or component.name,
                namespace=namespace,
                values=inputs.get("values") or {},
                value_files=files,
                kube_version=kube_version,
                api_versions=api_versions,
            )
    except helm.HelmError as error:
        raise PluginError(f"chart {inputs['chart']}: {error}") from error
    return [_placed(without_nulls(manifest), client, namespace) for manifest in objects]


def _capabilities(client: KubeClient, log: EngineLog, default: str) -> tuple[str, list[str]]:
    try:
        return client.version(), client.api_versions()
    except Unreachable as error:
        log.warning_once(f"{error}. Charts are rendered for Kubernetes {default}")
        return default, []


@contextmanager
def _value_files(inputs: Mapping[str, Any]) -> Iterator[list[Path]]:
    """Yield the value files; text assets become files that exist as long as the context."""
    with tempfile.TemporaryDirectory(prefix="twin-chart-") as folder:
        paths = []
        for index, asset in enumerate(inputs.get("valueYamlFiles") or ()):
            if is_asset(asset) and asset.get("path"):
                paths.append(Path(asset["path"]))
            elif is_asset(asset) and "text" in asset:
                paths.append(Path(folder, f"values-{index}.yaml"))
                paths[-1].write_text(asset["text"])
            else:
                raise PluginError(f"valueYamlFiles[{index}]: a file or string asset is wanted")
        yield paths


def _placed(manifest: Values, client: KubeClient, namespace: str) -> Values:
    """Return the object with the release's namespace if its kind is namespaced and it names none."""
    try:
        served = client.kind(manifest["apiVersion"], manifest["kind"])
    except Unreachable:
        served = None
    namespaced = served.namespaced if served else manifest["kind"] not in kube_rules.CLUSTER_SCOPED
    return kube_rules.with_namespace(manifest, namespaced, namespace)


def _with_secrets(manifest: Values, secret_values: bool) -> Values:
    """Return the object with a Secret's content marked secret, or all content if any value of the chart was a secret."""
    if not secret_values and manifest["kind"] != "Secret":
        return manifest
    plain = {"apiVersion", "kind", "metadata"} if secret_values else manifest.keys() - {"data", "stringData"}
    return {key: value if key in plain else secret(value) for key, value in manifest.items()}
