"""Read a chart's objects other than its programs from the Go module of its program.

The charts themselves are not available everywhere. Go modules are, and a module contains the same definitions and
permissions as the chart. `go` downloads them once into a cache that all twins share.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from twin.host import go_toolchain, tools
from twin.host.tools import ToolError
from twin.releases.chart import Accounts, Chart, GoModule

Object = dict[str, Any]
_DOWNLOAD_SECONDS = 300
_OF_ACCOUNTS = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")


def definitions(chart: Chart) -> tuple[Object, ...]:
    """Return the custom resource definitions of a chart, sorted by name; empty if it has none. Raises ToolError."""
    return _definitions(chart.module, chart.definitions) if chart.module is not None and chart.definitions else ()


def accounts(chart: Chart, namespace: str, values: Mapping[str, Any]) -> list[Object]:
    """Return the service accounts and permissions of a release in `namespace` with these values. Raises ToolError."""
    if chart.module is None or chart.accounts is None:
        return []
    if chart.accounts.templates:
        rendered = templates(chart, chart.accounts.templates, namespace, values)
        return [item for item in rendered if item["kind"] in _OF_ACCOUNTS]
    objects: list[Object] = []
    for name in chart.accounts.files:
        file = source(chart.module) / name
        if not file.exists():
            raise ToolError(f"{chart.module.path} {chart.module.version} has no {name}, which the chart {chart.name} needs")
        objects += _documents(file)
    for item in objects:
        _move(item, chart.accounts, namespace)
        if item["kind"] == "ServiceAccount":
            item["metadata"]["annotations"] = chart.accounts.annotations(values)
    return objects


def templates(chart: Chart, where: str, namespace: str, values: Mapping[str, Any]) -> list[Object]:
    """Return the objects that Helm renders from the chart in the folder `where` of its module. Raises ToolError."""
    from twin.releases import helm  # only charts that are rendered need it

    try:
        return helm.render(folder(chart) / where, name=chart.name, namespace=namespace, values=values)
    except helm.HelmError as error:
        raise ToolError(f"the chart {chart.name} cannot be rendered: {error}") from None


def folder(chart: Chart) -> Path:
    """Return the root of a chart's module, which may contain the chart itself. Raises ToolError."""
    if chart.module is None:
        raise ToolError(f"the record of the chart {chart.name} names no Go module")
    return source(chart.module)


@cache
def source(module: GoModule) -> Path:
    """Find or download a module with `go`, which checks downloads against the public checksum database. Raises ToolError."""
    wanted = f"{module.path}@{module.version}"
    argv = [str(tools.go(f"downloading {wanted}")), "mod", "download", "-json", wanted]
    try:
        done = subprocess.run(
            argv,
            cwd="/",  # outside any module, whose own requirements would count
            env=go_toolchain.environment(tools.cache_directory().with_name("sources")),
            capture_output=True,
            text=True,
            timeout=_DOWNLOAD_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ToolError(f"downloading {wanted} took more than {_DOWNLOAD_SECONDS} s") from None
    if done.returncode != 0:
        said = _error(done.stdout) or done.stderr.strip()
        raise ToolError(f"{wanted} cannot be downloaded: {said}")
    return Path(json.loads(done.stdout)["Dir"])


@cache
def _definitions(module: GoModule, pattern: str) -> tuple[Object, ...]:
    found = [item for file in sorted(source(module).glob(pattern)) for item in _documents(file)]
    crds = [item for item in found if item.get("kind") == "CustomResourceDefinition"]
    if not crds:
        raise ToolError(f"{module.path} {module.version} has no custom resource definitions in {pattern}")
    return tuple(sorted(crds, key=lambda crd: str(crd["metadata"]["name"])))


def _move(item: Object, accounts: Accounts, namespace: str) -> None:
    """Move objects in the namespace of the module's file to the release's namespace."""
    if item["kind"].startswith("Cluster"):  # without a namespace, even if the file has one
        item["metadata"].pop("namespace", None)
    for place in (item["metadata"], *item.get("subjects", ())):
        if place.get("namespace") == accounts.namespace:
            place["namespace"] = namespace


def _documents(file: Path) -> list[Object]:
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".json":
        return [json.loads(text)]
    return [document for document in yaml.load_all(text, Loader=yaml.CSafeLoader) if document]


def _error(answer: str) -> str:
    try:
        return str(json.loads(answer).get("Error", ""))
    except ValueError:
        return ""
