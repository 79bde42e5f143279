"""`make down`: remove every process and file of the twin."""

from collections.abc import Iterator

from twin.commands import shell
from twin.host import claim, processes
from twin.host.home import TwinHome
from twin.services import leftovers


def down(home: TwinHome) -> Iterator[str]:
    """Stop every process of the twin and of its scratch twins, delete its files, and report each step on a line.

    The command must work on a full disk, so it writes only after it has freed space. It must also work after another
    version of the program, so it deletes unreadable files too. Raises TwinBusy if another command uses the twin, NotATwin
    if the directory does not belong to a twin.
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
