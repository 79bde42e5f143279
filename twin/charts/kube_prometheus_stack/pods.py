"""Run Prometheus and its config reloader as local processes, from their containers' commands.

The programs are the same as in a cluster, with the arguments from prometheus-operator. Only references to the pod change: an
address to listen on instead of every interface, and paths.
"""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Mapping, Sequence

from spec.names import PROMETHEUS_PORT
from twin.host import tools
from twin.host.tools import ToolError
from twin.pods import pod_spec
from twin.pods.pod_spec import SpecError
from twin.pods.pod_volumes import PathRewriter
from twin.pods.program import Launch, LocalCommand, PodProgram

FAMILIES = ("prometheus", "prometheus-operator")
"""The families of built programs (twin/host/tools.py) for a pod of Prometheus."""
CONFIGURATION = "prometheus.yaml.gz"
"""The file in which prometheus-operator passes the configuration of Prometheus."""
_LISTEN = "--web.listen-address="
_DATA = "/prometheus"
_RELOADER = "/bin/prometheus-config-reloader"
_OF_THE_POD = re.compile(r"(--listen-address=|--reload-url=https?://)(?:localhost|127\.0\.0\.1|)(?=:\d)")
"""The reloader's arguments with addresses in its own pod: its own, and Prometheus's."""


def prometheus_command(launch: Launch) -> LocalCommand:
    """Return the command for a container of Prometheus. Raises SpecError if the program is not built."""
    port = next(iter(pod_spec.ports(launch.container)), PROMETHEUS_PORT)
    argv = prometheus_arguments(launch.words, launch.address, port)
    return LocalCommand((_built("prometheus"), *argv), _environment(launch.env))


def reloader_command(launch: Launch) -> LocalCommand:
    """Return the command for a container of the config reloader. Raises SpecError, also for another command."""
    argv = reloader_arguments(launch.words, launch.address)
    return LocalCommand((_built("prometheus-config-reloader"), *argv), _environment(launch.env))


def prometheus_arguments(words: Sequence[str], address: str, port: int) -> list[str]:
    """Return the arguments of Prometheus, listening only on `address`."""
    return [*(word for word in words if not word.startswith(_LISTEN)), f"{_LISTEN}{address}:{port}"]


def reloader_arguments(words: Sequence[str], address: str) -> list[str]:
    """Return the arguments of the reloader in the pod at `address`. Raises SpecError for another program."""
    if not words or words[0] != _RELOADER:
        raise SpecError("RunContainerError", f"the reloader is started by {_RELOADER!r}, not by {' '.join(words)!r}")
    return [_OF_THE_POD.sub(rf"\g<1>{address}", word) for word in words[1:]]


def localize(name: str, content: bytes, rewrite: PathRewriter) -> bytes:
    """Return the configuration with the paths of Prometheus's container changed to the local paths of its volumes.

    Other files stay unchanged. The path of the data stays too, because no configuration names it, and `/prometheus` may
    also be the path of an exporter's metrics.
    """
    if name != CONFIGURATION:
        return content
    mounts = {path: directory for path, directory in rewrite.mounts.items() if path != _DATA}
    text = PathRewriter(mounts)(gzip.decompress(content).decode())
    return gzip.compress(text.encode(), mtime=0)


def _built(program: str) -> str:
    try:
        return str(tools.built(FAMILIES)[program])
    except ToolError as error:
        raise SpecError("RunContainerError", str(error)) from error


def _environment(env: Mapping[str, str]) -> dict[str, str]:
    return {"PATH": os.defpath, "LANG": "C.UTF-8", **env}


PROMETHEUS = PodProgram("prometheus", "prometheus/prometheus", prometheus_command, localize=localize)
RELOADER = PodProgram("prometheus-config-reloader", "prometheus-config-reloader", reloader_command, sidecar=True)
"""The container that updates Prometheus's configuration. Alertmanager's pods have it too."""
