"""One twin's directory: where everything of it lies, where it can be reached, and who may change it.

Everything that a twin writes is below `TwinHome.path` (environment variable TWIN_HOME, default `.twin` in the checkout), so
two twins with two homes run side by side and removing the directory removes the twin.
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
"""The checkout that this code belongs to: the working directory and import path of the twin's own Python processes."""


class TwinBusy(Failure):
    """Another command is changing this twin right now; the text names its process and what to do."""

    exit_code = NOT_TRIED


@dataclass(frozen=True)
class Endpoints:
    """Where a twin's servers listen; None for one that was never started."""

    aws_url: str | None = None
    api_server_url: str | None = None
    kubeconfig: str | None = None


@dataclass(frozen=True)
class TwinHome:
    """The paths of one twin. Making one touches nothing on disk."""

    path: Path
    linked: bool = field(default=False, compare=False)
    """Reached through a symbolic link: that is a person's, and so is the directory that it leads to."""

    @classmethod
    def from_environment(cls) -> TwinHome:
        """Return the twin that TWIN_HOME names, else the checkout's `.twin`. Raises NotATwin when that is something else."""
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
        """Return the folder of a directory for each pod that runs as a process, named by its UID."""
        return self.path / "pods"

    @property
    def nodes(self) -> Path:
        """Return the folder of a directory for each node whose pods share one, named after the node."""
        return self.path / "nodes"

    @property
    def cache(self) -> Path:
        """Return the directory of what can be made again at any time."""
        return self.path / "cache"

    @property
    def kubectl_cache(self) -> Path:
        """Return where kubectl and helm keep the API's discovery (KUBECACHEDIR); by themselves they take ~/.kube/cache."""
        return self.cache / "kubectl"

    @property
    def temporary(self) -> Path:
        """TMPDIR of the programs of this twin: what a killed one leaves goes with the twin. Made when absent."""
        path = self.path / "tmp"
        path.mkdir(parents=True, exist_ok=True)
        return path

    @property
    def shared_memory_prefix(self) -> str:
        """Return how the names begin of everything that this twin's servers have in SHARED_MEMORY."""
        return f"twin-{hashlib.sha256(str(self.path).encode()).hexdigest()[:8]}-"

    @property
    def kubeconfig(self) -> Path:
        """Return the administrator's kubeconfig."""
        return self.path / "kubeconfig"

    def load_endpoints(self) -> Endpoints:
        """Return what `endpoints.json` says; all None before the first start."""
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
        """Hold this twin for one command that changes it, and make its directory; the kernel lets go however it ends.

        Raises TwinBusy at once when another command holds it, and NotATwin when the directory is somebody else's.
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
            with contextlib.suppress(OSError):  # a full disk: who holds it is not told
                file.write(f"`{command}` (process {os.getpid()})\n".encode())
            try:
                yield
            finally:
                file.truncate(0)


def read_json(path: Path) -> dict[str, Any] | None:
    """Return the object in a JSON file; None when it does not exist, was cut off by a crash, or cannot be read."""
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file so that a reader sees the old content or the new one, never a part."""
    write_whole(path, (json.dumps(content, indent=2, sort_keys=True) + "\n").encode())
