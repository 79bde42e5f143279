"""Runs containers of an image on disk without a container runtime: processes in its files, started as a kubelet does.

Each process runs in a chroot with its pod's volumes, as its pod's user, with only the environment of the image and the pod.
If the pod says so, its root is read-only. The network is this machine's: a server that listens on all addresses in a pod
listens here on the pod's own address.
"""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twin.pods import pod_spec
from twin.pods.pod_spec import Sources

_START = """
root=$1 access=$2; shift 2
mount --bind "$root" "$root"
while [ "$1" != -- ]; do mount --bind "$1" "$root$2"; shift 2; done; shift
mount -o "remount,bind,$access" "$root"
exec "$@"
"""
_OF_EVERY_RUNTIME = {"/dev": Path("/dev"), "/proc": Path("/proc")}


@dataclass(frozen=True)
class Image:
    """An OCI layout, extracted to `root`. `layers`: bytes of the files of each layer, by digest."""

    digest: str
    config: Mapping[str, Any]
    layers: Mapping[str, int]
    root: Path

    @classmethod
    def extracted(cls, layout: Path, root: Path) -> Image:
        def blob(digest: str) -> Path:
            return layout / "blobs" / "sha256" / digest.removeprefix("sha256:")

        (entry,) = json.loads((layout / "index.json").read_text())["manifests"]
        manifest = json.loads(blob(entry["digest"]).read_text())
        config = json.loads(blob(manifest["config"]["digest"]).read_text())["config"]
        sizes = {}
        for layer in manifest["layers"]:
            with tarfile.open(blob(layer["digest"])) as archive:
                sizes[layer["digest"]] = sum(member.size for member in archive.getmembers())
                archive.extractall(root, filter="fully_trusted")  # noqa: S202 - built here
        return cls(entry["digest"], config, sizes, root)

    def argv(
        self, pod: Mapping[str, Any], container: Mapping[str, Any], volumes: Mapping[str, Path], address: str
    ) -> list[str]:
        """Return the command that becomes a container of a pod with this address; `volumes` are the pod's, by name."""
        security = {**pod.get("securityContext", {}), **container.get("securityContext", {})}
        user, group = security["runAsUser"], security["runAsGroup"]
        own = {mount["mountPath"]: volumes[mount["name"]] for mount in container.get("volumeMounts", [])}
        mounts = {**_OF_EVERY_RUNTIME, **own}
        for path in mounts:
            (self.root / path.lstrip("/")).mkdir(parents=True, exist_ok=True)
        env = pod_spec.environment(container, {"metadata": {}, "spec": pod}, address, Sources())
        words = [word.replace("=0.0.0.0:", f"={address}:") for word in pod_spec.arguments(container, env)]
        setpriv, chroot = (shutil.which(name) or name for name in ("setpriv", "chroot"))
        return [
            *("unshare", "--mount", "--propagation=private", "sh", "-euc", _START, "sh", str(self.root)),
            "ro" if security["readOnlyRootFilesystem"] else "rw",
            *(str(word) for path, volume in mounts.items() for word in (volume, path)),
            *("--", "env", "-i", *self.config["Env"], *(f"{name}={value}" for name, value in env.items())),
            *(setpriv, "--no-new-privs", chroot, f"--userspec={user}:{group}", "--groups=", str(self.root)),
            *words,
        ]
