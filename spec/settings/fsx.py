"""The FSx for Lustre file system in front of the model bucket: `triton-eks:models.fsx`."""

from typing import Annotated, ClassVar

from pydantic import Field

from spec.settings.kind import Kind, refuse
from spec.settings.section import Section
from spec.wording import one_of

# Persistent 2 on SSD (FSx API reference, CreateFileSystem: StorageCapacity and PerUnitStorageThroughput).
_SMALLEST_GIB, _STEP_GIB = 1200, 2400
_LARGEST_GIB = (2**31 - 1) // _STEP_GIB * _STEP_GIB  # the maximum in botocore's model of FSx
_THROUGHPUTS = (125, 250, 500, 1000)


def _storage(value: int) -> int:
    if value != _SMALLEST_GIB and (not 0 < value <= _LARGEST_GIB or value % _STEP_GIB):
        refuse(
            f"{value} GiB is no size of this file system; use {_SMALLEST_GIB}, or a multiple of {_STEP_GIB} up to "
            f"{_LARGEST_GIB}"
        )
    return value


def _throughput(value: int) -> int:
    if value not in _THROUGHPUTS:
        refuse(f"{value} MB/s per TiB is not to be had; use {one_of(_THROUGHPUTS)}")
    return value


class Fsx(Section):
    """A persistent file system on SSD. AWS bills it by the hour, whether or not it is used."""

    guide: ClassVar[str] = "docs/serving.md"

    storage_gib: Annotated[
        int,
        Kind(
            _storage,
            "1200 or a multiple of 2400 GiB",
            {"anyOf": [{"const": _SMALLEST_GIB}, {"minimum": _STEP_GIB, "maximum": _LARGEST_GIB, "multipleOf": _STEP_GIB}]},
            alone=False,
        ),
    ] = Field(description="the size in GiB, 1200 or a multiple of 2400; it bills by the hour")
    throughput_mbs_per_tib: Annotated[
        int, Kind(_throughput, f"{one_of(_THROUGHPUTS)} MB/s per TiB", {"enum": list(_THROUGHPUTS)}, alone=False)
    ] = Field(alias="throughputMBsPerTiB", description="MB/s per TiB of storage: 125, 250, 500 or 1000")
