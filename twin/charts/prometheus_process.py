"""Prometheus and its config reloader as local processes: what their containers' commands become here.

The programs are those that a cluster runs, with the arguments that prometheus-operator gives them. What changes is what
names the pod: an address to listen on instead of every interface, and paths.
"""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from spec.names import PROMETHEUS_PORT
from twin.cluster.kwok_stages import is_reloader
from twin.host import tools
from twin.host.tools import ToolError
from twin.pods import pod_spec
from twin.pods.pod_spec import SpecError
from twin.pods.pod_volumes import PathRewriter

FAMILIES = ("prometheus", "prometheus-operator")
"""The families of built programs (twin/host/tools.py) that a pod of Prometheus consists of."""
CONFIGURATION = "prometheus.yaml.gz"
"""The file in which prometheus-operator hands over what Prometheus shall do."""
_LISTEN = "--web.listen-address="
_DATA = "/prometheus"
_RELOADER = "/bin/prometheus-config-reloader"
_OF_THE_POD = re.compile(r"(--listen-address=|--reload-url=https?://)(?:localhost|127\.0\.0\.1|)(?=:\d)")
"""What the reloader is told of its own pod: where it listens, and where Prometheus does."""


def command(
    container: Mapping[str, Any], words: Sequence[str], env: Mapping[str, str], address: str
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Argv and complete environment, for a pod at `address`. Raises SpecError when the programs are not built."""
    try:
        programs = tools.built(FAMILIES)
    except ToolError as error:
        raise SpecError("RunContainerError", str(error)) from error
    if is_reloader(container):
        argv = reloader_arguments(words, address)
        return (str(programs["prometheus-config-reloader"]), *argv), _environment(env)
    port = next(iter(pod_spec.ports(container)), PROMETHEUS_PORT)
    return (str(programs["prometheus"]), *prometheus_arguments(words, address, port)), _environment(env)


def prometheus_arguments(words: Sequence[str], address: str, port: int) -> list[str]:
    """The arguments of Prometheus, listening on `address` only."""
    return [*(word for word in words if not word.startswith(_LISTEN)), f"{_LISTEN}{address}:{port}"]


def reloader_arguments(words: Sequence[str], address: str) -> list[str]:
    """The arguments of the reloader in the pod at `address`. Raises SpecError for another program."""
    if not words or words[0] != _RELOADER:
        raise SpecError("RunContainerError", f"the reloader is started by {_RELOADER!r}, not by {' '.join(words)!r}")
    return [_OF_THE_POD.sub(rf"\g<1>{address}", word) for word in words[1:]]


def localize(content: bytes, rewrite: PathRewriter) -> bytes:
    """The configuration with the paths of Prometheus's container moved to where its volumes lie.

    Not those of the data, which no configuration names: `/prometheus` is also where an exporter may have its metrics.
    """
    mounts = {path: directory for path, directory in rewrite.mounts.items() if path != _DATA}
    text = PathRewriter(mounts)(gzip.decompress(content).decode())
    return gzip.compress(text.encode(), mtime=0)


def _environment(env: Mapping[str, str]) -> dict[str, str]:
    return {"PATH": os.defpath, "LANG": "C.UTF-8", **env}
