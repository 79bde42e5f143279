"""``helm.v3.Release`` on the twin: third-party charts are not installed, and the output names each chart's substitute.

A release leaves a ConfigMap ``twin-release-<name>`` in its namespace with chart, version, merged values and the
substitute's description. The substitutes read it. For example, the node simulator reads the device plugin's scheduling rule
and sharing configuration. The agent starts the real programs of charts that have some here (twin/releases/runner.py). A
release waits for these programs, like Helm for its pods.
"""

from __future__ import annotations

import contextlib
import re
import threading
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from twin.charts.registry import CHARTS
from twin.cluster.kube_api import KubeClient, object_path
from twin.cluster.kube_errors import ApiError, KubeError
from twin.cluster.release_marks import FINALIZER, INSTALLATION, LABEL, config_map_name, config_map_path
from twin.plugins import accounts, definitions, differences, kube_rules
from twin.plugins.agent_programs import LONGEST_SECONDS, AgentPrograms
from twin.plugins.autonaming import autoname
from twin.plugins.errors import Failure, PluginError
from twin.plugins.provider import Plan, Resource
from twin.plugins.server import EngineLog
from twin.plugins.values import UNKNOWN, Values, has_unknown, is_asset
from twin.releases.chart import Chart

TOKEN = "kubernetes:helm.sh/v3:Release"

REPOSITORY = re.compile(r"https?://[A-Za-z0-9]")
EXACT_VERSION = re.compile(r"v?\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?\Z")


class Releases:
    """Operations on releases. ``namespace`` is the default for releases without one."""

    def __init__(self, client: KubeClient, log: EngineLog, cancelled: threading.Event, *, namespace: str) -> None:
        self._client = client
        self._log = log
        self._programs = AgentPrograms(client, cancelled)
        self._namespace = namespace

    def check(self, resource: Resource, old: Values, new: Values, seed: bytes) -> tuple[Values, list[Failure]]:
        inputs = _without_marks(new)
        if not inputs.get("name"):
            kept = old.get("name") if kube_rules.AUTONAMED in old.get("__defaults", ()) else None
            inputs["name"] = kept or autoname(resource.name, seed, kube_rules.NAME_DIGITS)
            inputs["__defaults"] = [kube_rules.AUTONAMED]
        inputs.setdefault("namespace", self._namespace)
        return inputs, _problems(inputs)

    def diff(self, resource: Resource, old: Values, new: Values, state: Values) -> Plan:
        return Plan(
            differences.changes(_without_marks(old), _without_marks(new)),
            replace=[("name",), ("namespace",)],
        )

    def preview_create(self, resource: Resource, inputs: Values) -> Values:
        self._announce(resource, inputs)
        return {**inputs, "status": UNKNOWN, "resourceNames": UNKNOWN}

    def create(self, resource: Resource, inputs: Values, timeout: float) -> tuple[str, Values]:
        self._announce(resource, inputs)
        if inputs.get("createNamespace"):
            self._create_namespace(inputs["namespace"])
        try:
            installed = self._install(inputs, revision=1)
        except (PluginError, KubeError):
            if inputs.get("atomic"):
                with contextlib.suppress(PluginError, KubeError):  # the first failure explains more
                    self._uninstall(inputs["namespace"], inputs["name"], inputs)
            raise
        return f"{inputs['namespace']}/{inputs['name']}", installed

    def read(self, resource: Resource, inputs: Values, state: Values) -> tuple[Values, Values] | None:
        namespace, name = kube_rules.split_id(resource.id)
        found = self._client.find(config_map_path(namespace, name))
        if found is None or "deletionTimestamp" in found["metadata"]:
            return None
        noted = {key: found["data"][key] for key in ("chart", "version")}
        before = {"chart": chart_name(state["chart"]), "version": state["version"]} if state else noted
        drifted = {key: value for key, value in noted.items() if value != before[key]}
        return {**inputs, **drifted}, {**state, **drifted}

    def preview_update(self, resource: Resource, state: Values, inputs: Values) -> Values:
        self._announce(resource, inputs)
        return {**state, **inputs, "status": UNKNOWN}

    def update(self, resource: Resource, state: Values, inputs: Values, timeout: float) -> Values:
        self._announce(resource, inputs)
        return self._install(inputs, revision=(state.get("status") or {}).get("revision", 0) + 1)

    def delete(self, resource: Resource, inputs: Values, state: Values, timeout: float) -> None:
        """Delete the release. A namespace that it created stays, as with Helm."""
        namespace, name = kube_rules.split_id(resource.id)
        self._uninstall(namespace or self._namespace, name, state)

    def _uninstall(self, namespace: str, name: str, release: Mapping[str, Any]) -> None:
        try:
            self._client.delete(config_map_path(namespace, name))
        except ApiError as error:
            raise PluginError(f"release {namespace}/{name}: {error}") from error
        self._programs.wait_gone(namespace, name, LONGEST_SECONDS)
        accounts.remove(self._client, _chart(release), namespace, _merged_values(release))

    def _announce(self, resource: Resource, inputs: Mapping[str, Any]) -> None:
        chart = _chart(inputs)
        self._log.info(f"twin: chart {chart.name} {inputs['version']} is not installed; {chart.stand_in}", resource.urn)

    def _create_namespace(self, namespace: str) -> None:
        try:
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
            self._client.create(object_path("v1", "namespaces"), body)
        except ApiError as error:
            if error.status != 409:
                raise PluginError(f"namespace {namespace}: {error}") from error

    def _install(self, inputs: Values, revision: int) -> Values:
        import yaml

        chart, version = _chart(inputs), inputs["version"]
        namespace, name = inputs["namespace"], inputs["name"]
        values = _merged_values(inputs)
        definitions.install(self._client, chart)
        accounts.install(self._client, chart, namespace, values)
        has_programs, installation = self._programs.stand_for(chart.name), str(uuid.uuid4())
        config_map = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": config_map_name(name),
                "namespace": namespace,
                "labels": {LABEL: "true"},
                "annotations": {INSTALLATION: installation},
                "finalizers": [FINALIZER] if has_programs else [],
            },
            "data": {
                "chart": chart.name,
                "version": version,
                "values.yaml": yaml.safe_dump(values, sort_keys=True),
                "standin": chart.stand_in,
            },
        }
        try:
            self._client.apply(config_map_path(namespace, name), config_map)
        except ApiError as error:
            raise PluginError(f"release {namespace}/{name}: {error}") from error
        if has_programs:
            self._programs.wait_ready(namespace, name, installation, min(LONGEST_SECONDS, inputs.get("timeout") or 300))
        status = {
            "name": name,
            "namespace": namespace,
            "chart": chart.name,
            "version": version,
            "revision": revision,
            "status": "deployed",
        }
        return {**inputs, "status": status, "resourceNames": {"ConfigMap/v1": [f"{namespace}/{config_map_name(name)}"]}}


def _chart(inputs: Mapping[str, Any]) -> Chart:
    return CHARTS[chart_name(inputs["chart"])]


def chart_name(chart: str) -> str:
    """Return the chart's own name: ``x`` for ``x``, ``repo/x`` and ``oci://registry/x``."""
    return chart.rstrip("/").rpartition("/")[2]


def _without_marks(inputs: Mapping[str, Any]) -> Values:
    """Return a release's inputs without the SDK's `compat` mark for old providers, which the official provider drops too."""
    return {key: value for key, value in inputs.items() if key != "compat"}


def _problems(inputs: Mapping[str, Any]) -> list[Failure]:
    failures = []
    chart, version = inputs.get("chart"), inputs.get("version")
    repository = inputs.get("repositoryOpts") or {}
    if not isinstance(chart, str):
        failures.append(Failure("chart", "is required: the chart's name"))
    elif chart != UNKNOWN and chart_name(chart) not in CHARTS:
        failures.append(
            Failure(
                "chart",
                f"{chart_name(chart)} is not among the charts that are pinned ({', '.join(sorted(CHARTS))}): "
                "add it to spec/charts.py, and what stands for it to twin/charts/registry.py",
            )
        )
    if version != UNKNOWN and not (isinstance(version, str) and EXACT_VERSION.match(version)):
        failures.append(
            Failure(
                "version",
                f"must be one exact version such as 0.17.4, not {version!r}: every run installs the same",
            )
        )
    if repository != UNKNOWN and not str(chart).startswith("oci://"):
        url = repository.get("repo")
        if not url:
            failures.append(Failure("repositoryOpts.repo", "is required: the URL of the chart's repository"))
        elif url != UNKNOWN and not REPOSITORY.match(str(url)):
            # Checked in previews too, where the official provider loads the chart. The twin contacts no other host.
            failures.append(
                Failure(
                    "repositoryOpts.repo",
                    f"{url!r} is not a valid chart repository: give one that begins with https://; a registry (oci://) "
                    "stands before the chart's name",
                )
            )
    return failures


def _merged_values(inputs: Mapping[str, Any]) -> Values:
    from twin.releases.helm import merge

    merged: Values = merge(*(_read(asset) for asset in inputs.get("valueYamlFiles") or ()), inputs.get("values") or {})
    if has_unknown(merged):
        raise PluginError(f"release {inputs['name']}: its values are not all known when it is installed")
    return merged


def _read(asset: Any) -> Values:
    import yaml

    if not is_asset(asset) or not (asset.get("path") or asset.get("text")):
        raise PluginError(f"valueYamlFiles: a file or string asset is wanted, not {asset!r}")
    text = asset["text"] if asset.get("text") else Path(asset["path"]).read_text()
    return yaml.safe_load(text) or {}
