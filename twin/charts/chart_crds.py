"""The custom resource definitions that a chart installs, from the Go module of the program that the chart installs.

The charts themselves cannot be had everywhere; Go modules can, and a module ships the very definitions that the chart
carries. They are read from Go's module cache, where `go` puts the module when it is not there yet.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from twin.host import tools
from twin.host.tools import ToolError

Crd = dict[str, Any]
_DOWNLOAD_SECONDS = 300


@dataclass(frozen=True)
class Source:
    """Where a module keeps definitions: `files` is a pattern below its root, of JSON or YAML files; empty: it has none."""

    module: str
    version: str
    files: str = ""


SOURCES: Mapping[str, Source] = {
    # The chart, of version 3.2.2, and the policy are in the module; no kind of its own is used here.
    "aws-load-balancer-controller": Source("sigs.k8s.io/aws-load-balancer-controller", "v0.0.0-20260423195125-93ff3b5fdaad"),
    # The chart itself is in the module. It brings the experimental channel of the Gateway API.
    "gateway-helm": Source("github.com/envoyproxy/gateway", "v1.9.0", "charts/gateway-helm/charts/crds/crds/**/*.yaml"),
    "karpenter-crd": Source("github.com/aws/karpenter-provider-aws", "v1.14.1", "pkg/apis/crds/*.yaml"),
    "keda": Source("github.com/kedacore/keda/v2", "v2.20.2", "config/crd/bases/*.yaml"),
    # The version that the pinned chart installs (docs/facts/charts.md#definitions). As JSON: YAML takes seconds to read.
    "kube-prometheus-stack": Source(
        "github.com/prometheus-operator/prometheus-operator", "v0.93.1", "jsonnet/prometheus-operator/*-crd.json"
    ),
    # For its accounts alone (twin/charts/chart_accounts.py).
    "prometheus-adapter": Source("sigs.k8s.io/prometheus-adapter", "v0.12.0"),
}
"""By the chart's name. A chart that is not here brings no definitions that this project uses."""


@cache
def crds(chart: str) -> tuple[Crd, ...]:
    """The definitions of a chart by name, none for a chart that is not in SOURCES. Raises ToolError."""
    source = SOURCES.get(chart)
    if source is None or not source.files:
        return ()
    files = sorted(_folder(source).glob(source.files))
    found = [crd for file in files for crd in _read(file) if crd.get("kind") == "CustomResourceDefinition"]
    if not found:
        raise ToolError(f"{source.module} {source.version} has no custom resource definitions in {source.files}")
    return tuple(sorted(found, key=lambda crd: str(crd["metadata"]["name"])))


def folder(chart: str) -> Path:
    """The root of the module of a chart in SOURCES; some hold the chart itself. Raises ToolError."""
    return _folder(SOURCES[chart])


def _folder(source: Source) -> Path:
    """The module's root in the cache. What `go` downloads, it checks against the public checksum database."""
    wanted = f"{source.module}@{source.version}"
    argv = [str(tools.find_go(f"downloading {wanted}")), "mod", "download", "-json", wanted]
    try:
        done = subprocess.run(
            argv,
            cwd="/",  # of no module, whose own requirements would count
            env={**os.environ, "GOFLAGS": "", "GOWORK": "off"},
            capture_output=True,
            text=True,
            timeout=_DOWNLOAD_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ToolError(f"downloading {wanted} took more than {_DOWNLOAD_SECONDS} s") from None
    if done.returncode != 0:
        said = _error(done.stdout) or done.stderr.strip()
        raise ToolError(f"{wanted} is not in Go's module cache and cannot be downloaded: {said}")
    return Path(json.loads(done.stdout)["Dir"])


def _error(answer: str) -> str:
    try:
        return str(json.loads(answer).get("Error", ""))
    except ValueError:
        return ""


def _read(file: Path) -> list[Crd]:
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".json":
        return [json.loads(text)]
    import yaml

    return [document for document in yaml.load_all(text, Loader=yaml.CSafeLoader) if document]
