"""A machine without enough room is reported before anything starts."""

import shutil
from collections import namedtuple
from pathlib import Path

import pytest

from twin.host import room
from twin.host.home import TwinHome

_Usage = namedtuple("_Usage", "free")
MIB = 1024**2


@pytest.mark.parametrize(
    ("home", "shared", "lacks"),
    [
        (300, 16, []),
        (299, 16, ["{home} has 299 MiB free, and 300 MiB are needed for what a twin writes: make room there, "]),
        (
            300,
            15,
            ["{shared} has 15 MiB free, and 16 MiB are needed for what Triton shares with its Python models: `mount -o "],
        ),
        (0, 0, ["{home} has 0 MiB free", "{shared} has 0 MiB free"]),
    ],
)
def test_every_file_system_with_too_little_room_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: int, shared: int, lacks: list[str]
) -> None:
    folder = tmp_path / "shm"
    folder.mkdir()
    free = {folder: shared * MIB, tmp_path: home * MIB}
    monkeypatch.setattr(shutil, "disk_usage", lambda path: _Usage(free[path]))
    twin = TwinHome(tmp_path / "not" / "yet")
    try:
        room.check(twin, folder)
        said = []
    except room.NoRoom as refusal:
        said = str(refusal).splitlines()
    assert len(said) == len(lacks)
    for line, begin in zip(said, lacks, strict=True):
        assert line.startswith(begin.format(home=twin.path, shared=folder))
