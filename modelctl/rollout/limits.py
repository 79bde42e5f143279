"""How long a rollout waits for what, and how many requests judge a canary."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Seconds, unless the name says otherwise.

    `load`: one model on one pod, with its download and warm-up; a pod that is starting has as long. `restart`: until
    another pod stands and serves in a restarted one's place, a new node included. `canary`: until a step has had
    `canary_requests` per model. `drain`: until nobody asks for a version any more, which is so when no request for it
    was finished or pending for `quiet`: longer than clients need to learn of a new version, plus their longest request.
    `settle`: until a pod has ended the work of an unloaded version. `poll`: between two looks.
    """

    load: float = 300.0
    restart: float = 1800.0
    canary: float = 600.0
    canary_requests: int = 100
    drain: float = 300.0
    quiet: float = 15.0
    settle: float = 120.0
    poll: float = 0.5


def until(seconds: float, poll: float, check: Callable[[], None]) -> Iterator[None]:
    """Yield turns of a loop until `seconds` are over, `poll` apart, the first at once; `check` is called before each."""
    deadline = time.monotonic() + seconds
    while True:
        check()
        yield
        left = deadline - time.monotonic()
        if left <= 0:
            return
        time.sleep(min(poll, left))
