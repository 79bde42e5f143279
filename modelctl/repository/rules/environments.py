"""Check the archives that contain the packages of Python models: `EXECUTION_ENV_PATH`.

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
"""The placeholder for the model's directory in a parameter of the python backend."""
_ACTIVATE = "bin/activate"
_UNREADABLE = f"{PARAMETER}: it is no tar archive, or is cut off or damaged; pack it again"
_BLOCK = 4096
_READ_WHOLE = (".tar", ".gz", ".tgz", ".bz2", ".tbz2", ".xz", ".txz")
"""Suffixes of archives that Python reads; the backend's libarchive reads more kinds."""


@dataclass(frozen=True)
class Environment:
    """An archive with the packages of a Python model.

    `unpacked`: the bytes that its files take on a disk. `activates`: whether it has the script with which the backend starts
    the model. `leads_out`: the first member that leads out of the archive.
    """

    unpacked: int
    activates: bool
    leads_out: str | None


def archive_of(config: ModelConfig, directory: Path) -> Path | None:
    """Return the archive of a model. None if it has none, or its path is wrong."""
    value = config.parameters[PARAMETER].string_value if PARAMETER in config.parameters else ""
    name = value.removeprefix(f"{MODEL_DIRECTORY}/")
    archive = directory / name
    return archive if name != value and name and ".." not in Path(name).parts and archive.is_file() else None


def read(archive: Path) -> Environment | None:
    """Read an archive to its end; None if Python cannot read it.

    This unpacks gigabytes, so the result is cached until the file changes.
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
            while packed.fileobj is not None and packed.fileobj.read(_BLOCK):  # the data after the end has a checksum too
                pass
    except (tarfile.TarError, OSError, EOFError, zlib.error, lzma.LZMAError):
        return None
    return Environment(unpacked, _ACTIVATE in names, wrong)


def mistake(archive: Path, head: bytes, size: int) -> str | None:
    """Return why the backend cannot start a model in this archive, or why it does harm. None if none is found.

    `head` and `size` are as in `formats.mistake`, which explains why an archive is unreadable.
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
