"""Create a pod's volumes as directories of the twin, and change the paths in its arguments to them.

The processes share this machine's file system, without a mount namespace. The content of a mount path is in the volume's
own directory. Each path below a mount path in an argument or a variable is rewritten, but not paths that a program builds
itself.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spec.files import write_whole
from twin.cluster.kube_api import Object
from twin.host.home import SHARED_MEMORY
from twin.pods import pod_spec
from twin.pods.pod_spec import Sources, SpecError

TokenRequest = Callable[[str, int], Awaitable[str]]
"""Requests a service account token from the API server: audience ("" = the API server's own), seconds."""
Localize = Callable[[str, bytes], bytes]
"""Adapts the content of a file, given by its name, to this machine."""
_HOUR = 3600


def _unchanged(_: str, content: bytes) -> bytes:
    return content


@dataclass(frozen=True)
class PathRewriter:
    """Changes paths below mount paths to the volumes' directories. `mounts` maps mount path to directory."""

    mounts: Mapping[str, Path]

    def __call__(self, text: str) -> str:
        """Return `text` with the paths changed at the beginning of a word.

        A word begins at the start of the text, or after a space or one of `= : , ; " '`.
        """
        if not self.mounts:
            return text
        longest_first = sorted(self.mounts, key=len, reverse=True)
        alternatives = "|".join(re.escape(path) for path in longest_first)
        pattern = rf"(?:(?<=^)|(?<=[\s=:,;\"']))({alternatives})(?=$|[/\s:,;\"'])"
        return re.sub(pattern, lambda match: str(self.mounts[match[1]]), text)


def rewriter(container: Mapping[str, Any], directories: Mapping[str, Path]) -> PathRewriter:
    """Return the rewriter for one container, from its mounts and the volumes' directories by name.

    /dev/shm is not changed: shared memory belongs to the machine, and its names are the process's own.
    """
    mounts = {}
    for mount in container.get("volumeMounts") or []:
        path = mount["mountPath"].rstrip("/")
        if path != SHARED_MEMORY and mount["name"] in directories:
            directory = directories[mount["name"]] / mount.get("subPath", "")
            mounts[path] = directory
    return PathRewriter(mounts)


async def materialize(
    pod: Object,
    root: Path,
    sources: Sources,
    request_token: TokenRequest,
    localize: Localize = _unchanged,
    *,
    node: Path | None = None,
) -> dict[str, Path]:
    """Create the directories of the volumes that the pod's containers mount, and fill volumes that have content.

    A volume that is a folder of the node is a link to a directory below `node`, which all pods of that node share.
    Raises SpecError (FailedMount) for a missing source, or a kind of volume that a process here cannot have.
    """
    found = directories(pod, root)
    for volume in _mounted(pod):
        directory = found[volume["name"]]
        folder = sources.node_folders.get((volume.get("persistentVolumeClaim") or {}).get("claimName", ""))
        if folder is not None and node is not None:
            shared = node / folder.lstrip("/")
            shared.mkdir(parents=True, exist_ok=True)
            directory.parent.mkdir(parents=True, exist_ok=True)
            if not directory.is_symlink():
                directory.symlink_to(shared)
            continue
        directory.mkdir(parents=True, exist_ok=True)
        for name, content in (await _content(volume, pod, sources, request_token)).items():
            write_whole(directory / name, localize(name, content), mode=0o644)
    for container in pod["spec"]["containers"]:
        for mount in container.get("volumeMounts") or []:
            if mount.get("subPath") and mount["name"] in found:
                target = found[mount["name"]] / mount["subPath"]
                if not target.exists():
                    target.mkdir(parents=True)
    return found


def directories(pod: Object, root: Path) -> dict[str, Path]:
    """Return the directories of the volumes that the pod's containers mount, by name."""
    return {volume["name"]: root / volume["name"] for volume in _mounted(pod)}


def follows_sources(pod: Object) -> bool:
    """Return whether the pod has volumes for `update`."""
    return any(_changes(volume) for volume in _mounted(pod))


async def update(pod: Object, root: Path, sources: Sources, localize: Localize = _unchanged) -> None:
    """Update the files of existing volumes from their ConfigMaps and Secrets, like the kubelet.

    If a source was deleted, its files stay. Tokens are not updated, because the API server issues them for a pod's
    lifetime.
    """
    for volume in _mounted(pod):
        directory = root / volume["name"]
        if not (_changes(volume) and directory.is_dir()):
            continue
        with contextlib.suppress(SpecError):
            wanted = await _content(volume, pod, sources, _no_token)
            for name, content in wanted.items():
                path, here = directory / name, localize(name, content)
                if not path.is_file() or path.read_bytes() != here:
                    write_whole(path, here, mode=0o644)
            for path in [path for path in directory.rglob("*") if path.is_file()]:
                if str(path.relative_to(directory)) not in wanted:
                    path.unlink(missing_ok=True)


def _mounted(pod: Object) -> list[Mapping[str, Any]]:
    containers = [*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or [])]
    mounted = {m["name"] for c in containers for m in c.get("volumeMounts") or []}
    return [volume for volume in pod["spec"].get("volumes") or [] if volume["name"] in mounted]


def _changes(volume: Mapping[str, Any]) -> bool:
    if "projected" in volume:
        sources = volume["projected"].get("sources") or []
        return bool(sources) and all("configMap" in source or "secret" in source for source in sources)
    return "configMap" in volume or "secret" in volume


async def _no_token(_audience: str, _seconds: int) -> str:
    raise AssertionError("a volume with a token is not brought up to date")


async def _content(
    volume: Mapping[str, Any], pod: Object, sources: Sources, request_token: TokenRequest
) -> dict[str, bytes]:
    if "emptyDir" in volume:
        return {}
    if "projected" in volume:
        files: dict[str, bytes] = {}
        for source in volume["projected"].get("sources") or []:
            files |= await _projection(volume["name"], source, pod, sources, request_token)
        return files
    if "configMap" in volume:
        return _pick(volume["name"], "configMap", volume["configMap"], sources.config_maps)
    if "secret" in volume:
        reference = {**volume["secret"], "name": volume["secret"]["secretName"]}
        return _pick(volume["name"], "secret", reference, sources.secrets)
    if "downwardAPI" in volume:
        return _downward(volume["downwardAPI"].get("items") or [], pod)
    kind = next((key for key in volume if key != "name"), "nothing")
    raise SpecError(
        "FailedMount",
        f"volume {volume['name']!r}: a pod that runs as a process cannot have {kind}; it can have emptyDir, configMap, "
        "secret, downwardAPI and projected volumes, and claims of a folder of the node",
    )


async def _projection(
    volume: str, source: Mapping[str, Any], pod: Object, sources: Sources, request_token: TokenRequest
) -> dict[str, bytes]:
    if "serviceAccountToken" in source:
        wanted = source["serviceAccountToken"]
        token = await request_token(wanted.get("audience", ""), wanted.get("expirationSeconds", _HOUR))
        return {wanted["path"]: token.encode()}
    if "configMap" in source:
        return _pick(volume, "configMap", source["configMap"], sources.config_maps)
    if "secret" in source:
        return _pick(volume, "secret", source["secret"], sources.secrets)
    if "downwardAPI" in source:
        return _downward(source["downwardAPI"].get("items") or [], pod)
    raise SpecError("FailedMount", f"volume {volume!r}: {', '.join(source)} cannot be projected here")


def _pick(
    volume: str, kind: str, reference: Mapping[str, Any], known: Mapping[str, Mapping[str, bytes]]
) -> dict[str, bytes]:
    """Return the files of a ConfigMap or Secret: all of its keys, or the keys in `items` under other names."""
    data = known.get(reference["name"])
    if data is None:
        if reference.get("optional"):
            return {}
        raise SpecError("FailedMount", f"volume {volume!r}: {kind} {reference['name']!r} not found")
    if not reference.get("items"):
        return dict(data)
    files = {}
    for item in reference["items"]:
        if item["key"] in data:
            files[item["path"]] = data[item["key"]]
        elif not reference.get("optional"):
            raise SpecError("FailedMount", f"volume {volume!r}: {kind} {reference['name']!r} has no key {item['key']!r}")
    return files


def _downward(items: list[Mapping[str, Any]], pod: Object) -> dict[str, bytes]:
    files = {}
    for item in items:
        if "fieldRef" in item:
            value = pod_spec.field_value(pod, item["fieldRef"]["fieldPath"], "")
        else:
            reference = item["resourceFieldRef"]
            named = next(c for c in pod["spec"]["containers"] if c["name"] == reference["containerName"])
            value = pod_spec.resource_value(named, reference)
        files[item["path"]] = value.encode()
    return files
