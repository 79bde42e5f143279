"""Wait for what AWS deletes late."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from spec.failure import Failure
from stackctl.orphans.leftover import Leftover
from stackctl.orphans.search import Search

Finder = Callable[[Search], Iterator[Leftover]]

_POLL_SECONDS = 10.0


class StillThere(Failure):
    """Something has not gone in time; the text says what, and what to look at."""


def until_gone(
    look: Callable[[], Search],
    finders: Sequence[Finder],
    seconds: float,
    say: Callable[[str], None],
    *,
    poll_seconds: float = _POLL_SECONDS,
) -> None:
    """Wait until the finders find nothing, and say what is waited for whenever that changes.

    `look` begins a new search each time. Raises StillThere after `seconds`.
    """
    deadline, said = time.monotonic() + seconds, ""
    while True:
        search = look()
        left = [item for finder in finders for item in finder(search)]
        if not left:
            return
        names = ", ".join(f"{item.kind} {item.id}" for item in left)
        if time.monotonic() > deadline:
            raise StillThere(
                f"still there after {seconds:g} s: {names}. Nothing that takes them away was removed: look at the log of "
                "their controller in the cluster, then run the same command again"
            )
        if names != said:
            say(f"  waiting for AWS to delete {names} ...")
            said = names
        time.sleep(poll_seconds)
