"""One twin's directory: the paths of its files, the addresses of its servers, and the lock for changes.

A twin writes only below `TwinHome.path` (environment variable TWIN_HOME, default `.twin` in the checkout). So two twins with
two homes can run at the same time, and removing the directory removes the twin.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spec.failure import NOT_TRIED, Failure
from spec.files import write_whole
from twin.host import claim

SHARED_MEMORY = "/dev/shm"  # noqa: S108 - a mount path, not a file that is made here
REPOSITORY = Path(__file__).resolve().parents[2]
"""The checkout of this code: the working directory and import path of the twin's own Python processes."""


class TwinBusy(Failure):
    """Another command is changing this twin; the text names its process and the remedy."""

    exit_code = NOT_TRIED


@dataclass(frozen=True)
class Endpoints:
    """The addresses of a twin's servers; None for a server that was never started."""

    aws_url: str | None = None
    api_server_url: str | None = None
    kubeconfig: str | None = None


@dataclass(frozen=True)
class TwinHome:
    """The paths of one twin. Creating an instance does not touch the disk."""

    path: Path
    linked: bool = field(default=False, compare=False)
    """Reached through a symbolic link: the link and its target directory belong to a person."""

    @classmethod
    def from_environment(cls) -> TwinHome:
        """Return the twin that TWIN_HOME names, else the checkout's `.twin`. Raises NotATwin if that is something else."""
        given = os.environ.get("TWIN_HOME") or str(REPOSITORY / ".twin")
        path = claim.resolved(given)
        claim.check(path)
        return cls(path, linked=Path(given).expanduser().is_symlink())

    @property
    def run(self) -> Path:
        """Records of the background processes, one JSON file each."""
        return self.path / "run"

    @property
    def logs(self) -> Path:
        """Logs of the background processes, one file each."""
        return self.path / "logs"

    @property
    def pki(self) -> Path:
        """Certificates, keys and the components' kubeconfigs."""
        return self.path / "pki"

    @property
    def etcd(self) -> Path:
        """etcd's data: the state of the Kubernetes API."""
        return self.path / "etcd"

    @property
    def pods(self) -> Path:
        """Return the folder with a directory for each pod that runs as a process, named by its UID."""
        return self.path / "pods"

    @property
    def nodes(self) -> Path:
        """Return the folder with a directory for each node whose pods share one, named after the node."""
        return self.path / "nodes"

    @property
    def cache(self) -> Path:
        """Return the directory for files that can be created again at any time."""
        return self.path / "cache"

    @property
    def kubectl_cache(self) -> Path:
        """Return the directory for kubectl's and helm's API discovery cache (KUBECACHEDIR), not ~/.kube/cache."""
        return self.cache / "kubectl"

    @property
    def temporary(self) -> Path:
        """TMPDIR of this twin's programs: leftovers of killed programs are removed with the twin. Created if missing."""
        path = self.path / "tmp"
        path.mkdir(parents=True, exist_ok=True)
        return path

    @property
    def shared_memory_prefix(self) -> str:
        """Return the name prefix of everything that this twin's servers create in SHARED_MEMORY."""
        return f"twin-{hashlib.sha256(str(self.path).encode()).hexdigest()[:8]}-"

    @property
    def kubeconfig(self) -> Path:
        """Return the administrator's kubeconfig."""
        return self.path / "kubeconfig"

    def load_endpoints(self) -> Endpoints:
        """Return the content of `endpoints.json`; all None before the first start."""
        known = {f.name for f in dataclasses.fields(Endpoints)}
        content = read_json(self.path / claim.ENDPOINTS) or {}
        return Endpoints(**{k: v for k, v in content.items() if k in known})

    def save_endpoints(self, **changes: str) -> Endpoints:
        """Change the given endpoints, keep the others, and return all."""
        endpoints = dataclasses.replace(self.load_endpoints(), **changes)
        write_json(self.path / claim.ENDPOINTS, dataclasses.asdict(endpoints))
        return endpoints

    @contextlib.contextmanager
    def lock(self, command: str) -> Iterator[None]:
        """Lock this twin for one command that changes it, and create its directory. The kernel always releases the lock.

        Raises TwinBusy at once if another command holds it, and NotATwin if the directory belongs to something else.
        """
        claim.claim(self.path)
        with (self.path / claim.LOCK).open("a+b", buffering=0) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                holder = file.read().decode(errors="replace").strip() or "another command"
                raise TwinBusy(
                    f"{self.path} is in use by {holder}: wait until it is done, or set TWIN_HOME to another directory "
                    "for a second twin"
                ) from None
            file.truncate(0)
            with contextlib.suppress(OSError):  # on a full disk the holder is not named
                file.write(f"`{command}` (process {os.getpid()})\n".encode())
            try:
                yield
            finally:
                file.truncate(0)


def read_json(path: Path) -> dict[str, Any] | None:
    """Return the object in a JSON file; None if it does not exist, was cut off by a crash, or cannot be read."""
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file atomically: a reader sees the old content or the new one."""
    write_whole(path, (json.dumps(content, indent=2, sort_keys=True) + "\n").encode())
