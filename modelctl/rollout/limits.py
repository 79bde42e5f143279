"""How long a rollout waits for what, and how its canaries are judged."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from spec import objectives


@dataclass(frozen=True)
class Terms:
    """How canaries are judged. `requests` and `seconds`: the least that a step has, whatever its requests say before
    (why so long: docs/canary-gate.md#simulated-rollouts).

    `failing`: the share of the requests that may fail, the error budget. `slower`: by which share of the old version's time
    in the model a new one may not be slower.
    """

    requests: int = 100
    seconds: float = 150.0
    failing: float = 1 - objectives.AVAILABILITY
    slower: float = 0.2


@dataclass(frozen=True)
class Limits:
    """Seconds, all but `terms`.

    `load`: one model on one pod, with its download and warm-up; a pod that is starting has as long. `restart`: until
    another pod stands and serves in a restarted one's place, a new node included. `canary`: until the requests of a step
    have told whether the new versions are right, as `terms` have it. `watch`: how long new versions that have all requests
    are judged, with the old ones loaded to return to. `drain`: until nobody asks for a version any more, which is so when no
    request for it was finished or pending for `quiet`: longer than clients need to learn of a new version, plus their
    longest request. `settle`: until a pod has ended the work of an unloaded version. `poll`: between two looks.
    """

    load: float = 300.0
    restart: float = 1800.0
    canary: float = 1800.0
    watch: float = 300.0
    drain: float = 300.0
    quiet: float = 15.0
    settle: float = 120.0
    poll: float = 0.5
    terms: Terms = Terms()


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
