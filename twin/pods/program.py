"""Programs that run as processes of pods: their records, and the containers that they run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twin.pods.pod_volumes import PathRewriter


@dataclass(frozen=True)
class Launch:
    """A container that is about to be started as a process.

    `words` are its command and arguments and `env` its variables, both expanded, with the paths of this machine. `address`
    is its pod's loopback address. On 127.0.0.1, `dns_port` is the port of the cluster's DNS, and `proxy_port` of the proxy
    for Services by name. Everything that it creates in /dev/shm with the name prefix `shared_memory` is removed after it
    exits.
    """

    container: Mapping[str, Any]
    words: Sequence[str]
    env: Mapping[str, str]
    address: str
    dns_port: int
    proxy_port: int
    cache: Path
    shared_memory: str


@dataclass(frozen=True)
class LocalCommand:
    """A process instead of a container: argv and complete environment. `notes` are written as Events about it."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    notes: Sequence[tuple[str, str]] = ()
    """Reason and message of each note."""


@dataclass(frozen=True)
class PodProgram:
    """A program that runs the containers of an image.

    `image` is the end of the image's path, without a tag (`tritonserver`, `prometheus/prometheus`). `container` is the name
    of its containers, if it does not run all of that image. `command` raises SpecError for a container that cannot be run.
    A `sidecar` alone does not make a pod run as processes; it runs in such pods, also as an init container. `ports` are
    free at the pod's address even if no container declares a port. `localize` adapts a file of a volume, given by its name,
    to this machine.
    """

    name: str
    image: str
    command: Callable[[Launch], LocalCommand]
    sidecar: bool = False
    ports: tuple[int, ...] = ()
    localize: Callable[[str, bytes, PathRewriter], bytes] | None = None
    container: str | None = None

    @property
    def pattern(self) -> str:
        """Return the regular expression of its containers: name, a space, image."""
        named = f"^{self.container} .*" if self.container is not None else ""
        return f"{named}/{self.image}([:@]|$)"

    def runs(self, container: Mapping[str, Any]) -> bool:
        """Return whether the container has the program's image, from any registry, and its name."""
        return re.search(self.pattern, f"{container.get('name', '')} {container.get('image', '')}") is not None


class PodPrograms:
    """The twin's programs for pods; kwok simulates all other pods."""

    def __init__(self, programs: Iterable[PodProgram]) -> None:
        self._programs = tuple(programs)

    @property
    def containers(self) -> str:
        """Return the regular expression (name, space, image) of containers whose pods run as processes."""
        return "|".join(program.pattern for program in self._programs if not program.sidecar)

    def of(self, container: Mapping[str, Any]) -> PodProgram | None:
        """Return the program of a container in a pod that runs as processes; None if the container is simulated there."""
        return next((program for program in self._programs if program.runs(container)), None)

    def claim(self, pod: Mapping[str, Any]) -> bool:
        """Return whether the pod runs as processes: one of its containers has a program that is not a sidecar."""
        found = map(self.of, pod["spec"]["containers"])
        return any(program is not None and not program.sidecar for program in found)
