"""The archives in which Python models bring their packages: `EXECUTION_ENV_PATH`.

See docs/serving.md#packages-of-python-models.
"""

from __future__ import annotations

import functools
import lzma
import tarfile
import zlib
from dataclasses import dataclass
from pathlib import Path

from tritonclient.grpc.model_config_pb2 import ModelConfig

from modelctl.repository.rules import formats
from modelctl.repository.rules.members import TarMembers

PARAMETER = "EXECUTION_ENV_PATH"
MODEL_DIRECTORY = "$$TRITON_MODEL_DIRECTORY"
"""How a parameter of the python backend names the directory of its model."""
_ACTIVATE = "bin/activate"
_UNREADABLE = f"{PARAMETER}: it is no tar archive, or is cut off or damaged; pack it again"
_BLOCK = 4096
_READ_WHOLE = (".tar", ".gz", ".tgz", ".bz2", ".tbz2", ".xz", ".txz")
"""Ends of names of archives that Python reads; the backend's libarchive reads more kinds."""


@dataclass(frozen=True)
class Environment:
    """An archive: the bytes that its files take on a disk, whether the backend finds what it starts the model with, and
    the first of its members that leads out.
    """

    unpacked: int
    activates: bool
    leads_out: str | None


def archive_of(config: ModelConfig, directory: Path) -> Path | None:
    """Return the archive of a model; None where it has none, or its place is wrong."""
    value = config.parameters[PARAMETER].string_value if PARAMETER in config.parameters else ""
    name = value.removeprefix(f"{MODEL_DIRECTORY}/")
    archive = directory / name
    return archive if name != value and name and ".." not in Path(name).parts and archive.is_file() else None


def read(archive: Path) -> Environment | None:
    """Look through an archive to its end; None where Python cannot read it.

    Gigabytes are unpacked for that: once, however many rules ask, until the file is another one.
    """
    try:
        found = archive.stat()
    except OSError:
        return None
    return _looked_through(archive, (found.st_ino, found.st_size, found.st_mtime_ns))


@functools.cache
def _looked_through(archive: Path, _file: tuple[int, int, int]) -> Environment | None:
    unpacked, names, tar_members, wrong = 0, set(), TarMembers(), None
    try:
        with tarfile.open(archive, "r:*") as packed:
            for member in packed:
                unpacked += -(-member.size // _BLOCK) * _BLOCK
                names.add(member.name.removeprefix("./"))
                wrong = wrong or tar_members.mistake(member)
            while packed.fileobj is not None and packed.fileobj.read(_BLOCK):  # what lies behind its end has a checksum too
                pass
    except (tarfile.TarError, OSError, EOFError, zlib.error, lzma.LZMAError):
        return None
    return Environment(unpacked, _ACTIVATE in names, wrong)


def mistake(archive: Path, head: bytes, size: int) -> str | None:
    """Return what keeps the backend from starting a model in this archive, or does harm there; None where nothing is seen.

    `head` and `size`: as for any file (`formats.mistake`), which says of an archive that cannot be read how one can tell.
    """
    found = read(archive)
    if found is None:
        whole = archive.suffix.lower() in _READ_WHOLE
        return formats.mistake(archive, head, size) or (_UNREADABLE if whole else None)
    said = []
    if found.leads_out is not None:
        said.append(f"{found.leads_out}; pack it anew, from inside the environment")
    if not found.activates:
        said.append(
            f"it has no {_ACTIVATE}, with which the backend starts the model; pack what is in the environment, not its "
            f"folder: tar -C <environment> -czf {archive.name} ."
        )
    return f"{PARAMETER}: {'; '.join(said)}" if said else None
