"""`make down`: nothing of the twin is left, neither process nor file."""

import shutil
from collections.abc import Iterator

from twin import leavings, processes, scratch, shell
from twin.home import TwinHome


def down(home: TwinHome) -> Iterator[str]:
    """Stops every process of the twin and of its scratch twins, removes its directory, and says so line by line.

    Raises TwinBusy when another command is using it.
    """
    if not home.path.exists():
        yield f"there is no twin at {home.path}"
        yield from _shell(home)
        return
    with home.lock("python3 -m twin down"):
        for leftover in scratch.leftovers(home):
            processes.stop_all(leftover)
        stopped = processes.stop_all(home)
        yield f"stopped {', '.join(stopped) or 'nothing: no process was running'}"
        leavings.remove(home)
        shutil.rmtree(home.path)
    yield f"removed {home.path}"
    yield from _shell(home)


def _shell(home: TwinHome) -> Iterator[str]:
    if shell.belongs_to(home):
        yield f"this shell still points to the twin that is gone: type {shell.LEAVE}, or go on in a new shell"
