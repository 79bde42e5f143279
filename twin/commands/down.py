"""`make down`: nothing of the twin is left, neither process nor file."""

from collections.abc import Iterator

from twin.commands import shell
from twin.host import claim, processes
from twin.host.home import TwinHome
from twin.services import leftovers


def down(home: TwinHome) -> Iterator[str]:
    """Stop every process of the twin and of its scratch twins, remove what it has made, and say so line by line.

    Nothing is written before the space is free, and what cannot be understood is removed all the same: this has to do on a
    full disk, and after another version of the program. Raises TwinBusy when another command is using the twin, NotATwin
    when the directory is none's.
    """
    if not claim.check(home.path):
        yield f"there is no twin at {home.path}"
        yield from _shell(home)
        return
    with home.lock("python3 -m twin down"):
        for leftover in leftovers.scratch_twins(home):
            processes.stop_all(leftover)
            leftovers.remove(leftover)
        stopped = processes.stop_all(home)
        leftovers.remove(home)
        left = claim.remove(home.path, keep_directory=home.linked)
    yield f"stopped {', '.join(stopped) or 'nothing: no process was running'}"
    yield _removed(home, left)
    yield from _shell(home)


def _removed(home: TwinHome, left: list[str]) -> str:
    if left:
        return f"removed the twin from {home.path}; left there, as no twin has made it: {', '.join(left)}"
    if home.path.exists():
        return f"removed the twin from {home.path}, which was there before it and is empty again"
    return f"removed {home.path}"


def _shell(home: TwinHome) -> Iterator[str]:
    if shell.belongs_to(home):
        yield f"this shell still points to the twin that is gone: type {shell.LEAVE}, or go on in a new shell"
