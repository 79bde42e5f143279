"""Programs that run as the processes of pods: what a record of one says, and which containers are whose."""

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
    is the one on loopback that its pod has, `dns_port` where the cluster's DNS answers on 127.0.0.1, and `proxy_port` the
    proxy there that reaches Services by their names. Whatever it makes in /dev/shm under names that begin with
    `shared_memory` is removed when it has ended.
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
    """A process in place of a container: argv and complete environment. `notes` are written as Events about it."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    notes: Sequence[tuple[str, str]] = ()
    """Reason and message of each."""


@dataclass(frozen=True)
class PodProgram:
    """A program that containers of an image are run as.

    `image` is the end of the image's path, without a tag (`tritonserver`, `prometheus/prometheus`), and `container` the name
    of the containers, where it runs not all of that image. `command` raises SpecError for a container that cannot be run
    so. A `sidecar` makes no pod one that runs as processes, but runs in those of others, as an init container too. `ports`
    are free at the pod's address even where no container names a port.
    `localize` makes a file of a volume, given by its name, fit this machine.
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
        """Return the regular expression of its containers: name, a blank, image."""
        named = f"^{self.container} .*" if self.container is not None else ""
        return f"{named}/{self.image}([:@]|$)"

    def runs(self, container: Mapping[str, Any]) -> bool:
        """Return whether the container has the program's image, of whatever registry, and its name."""
        return re.search(self.pattern, f"{container.get('name', '')} {container.get('image', '')}") is not None


class PodPrograms:
    """The programs that a twin has for pods; the pods of all others are simulated by kwok."""

    def __init__(self, programs: Iterable[PodProgram]) -> None:
        self._programs = tuple(programs)

    @property
    def containers(self) -> str:
        """Return the regular expression (name, blank, image) of containers whose pods run as processes."""
        return "|".join(program.pattern for program in self._programs if not program.sidecar)

    def of(self, container: Mapping[str, Any]) -> PodProgram | None:
        """Return the program that a container is run as, in a pod that runs as processes; None: it is simulated there."""
        return next((program for program in self._programs if program.runs(container)), None)

    def claim(self, pod: Mapping[str, Any]) -> bool:
        """Return whether the pod runs as processes: one of its containers has a program that is no sidecar."""
        found = map(self.of, pod["spec"]["containers"])
        return any(program is not None and not program.sidecar for program in found)
