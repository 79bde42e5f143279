"""The archives in which Python models bring their packages: `EXECUTION_ENV_PATH`.

See docs/serving.md#packages-of-python-models.
"""

from __future__ import annotations

import functools
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tritonclient.grpc.model_config_pb2 import ModelConfig

from modelctl.repository.rules.members import TarMembers

PARAMETER = "EXECUTION_ENV_PATH"
MODEL_DIRECTORY = "$$TRITON_MODEL_DIRECTORY"
"""How a parameter of the python backend names the directory of its model."""
_ACTIVATE = "bin/activate"
_BLOCK = 4096
_READ_HERE_ALONE = frozenset({".bz2", ".tbz2", ".xz", ".txz"})
"""The rules for files look at the beginning of these, and libarchive reads more kinds than Python."""


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
    """Look through an archive; None where it is none that can be read, which is told by its name's ending.

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
    except (tarfile.TarError, OSError, EOFError, zlib.error):
        return None
    return Environment(unpacked, _ACTIVATE in names, wrong)


def check(config: ModelConfig, directory: Path) -> Iterator[str]:
    """Yield what keeps the backend from starting a model in its environment."""
    archive = archive_of(config, directory)
    found = read(archive) if archive is not None else None
    if archive is not None and found is None and archive.suffix.lower() in _READ_HERE_ALONE:
        yield f"parameters[{PARAMETER}]: {archive.name} is no tar archive, or is cut off or damaged; pack it again"
    if archive is not None and found is not None and not found.activates:
        yield (
            f"parameters[{PARAMETER}]: {archive.name} has no {_ACTIVATE}, with which the backend starts the model; pack "
            f"what is in the environment, not its folder: tar -C <environment> -czf {archive.name} ."
        )
    if archive is not None and found is not None and found.leads_out is not None:
        yield f"parameters[{PARAMETER}]: {archive.name}: {found.leads_out}; pack it anew, from inside the environment"
