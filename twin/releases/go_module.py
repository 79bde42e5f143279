"""Read what a chart installs beside its programs, from the Go module of the program that it installs.

The charts themselves cannot be had everywhere; Go modules can, and a module ships the very definitions and rights that the
chart carries. `go` downloads them once into a cache of the twins' own.
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
    """Return the custom resource definitions of a chart, by name; none for one that brings none. Raises ToolError."""
    return _definitions(chart.module, chart.definitions) if chart.module is not None and chart.definitions else ()


def accounts(chart: Chart, namespace: str, values: Mapping[str, Any]) -> list[Object]:
    """Return the service accounts and rights of a release in `namespace` with these values. Raises ToolError."""
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
    """Return what Helm makes of the chart itself, which lies in the folder `where` of its module. Raises ToolError."""
    from twin.releases import helm  # only charts that are rendered need it

    try:
        return helm.render(folder(chart) / where, name=chart.name, namespace=namespace, values=values)
    except helm.HelmError as error:
        raise ToolError(f"the chart {chart.name} cannot be rendered: {error}") from None


def folder(chart: Chart) -> Path:
    """Return the root of a chart's module, in which some have the chart itself. Raises ToolError."""
    if chart.module is None:
        raise ToolError(f"the record of the chart {chart.name} names no Go module")
    return source(chart.module)


@cache
def source(module: GoModule) -> Path:
    """Have `go` find or download a module; it checks what it downloads against the public checksum database."""
    wanted = f"{module.path}@{module.version}"
    argv = [str(tools.go(f"downloading {wanted}")), "mod", "download", "-json", wanted]
    try:
        done = subprocess.run(
            argv,
            cwd="/",  # of no module, whose own requirements would count
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
    """Put what the module's file has in a namespace of its own into that of the release."""
    if item["kind"].startswith("Cluster"):  # of no namespace, whatever the file says
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
