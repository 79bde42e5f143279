"""The time limits of a rollout, and the terms that judge its canaries."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from spec import objectives


@dataclass(frozen=True)
class Terms:
    """The terms that judge canaries.

    `requests` and `seconds`: the minimum of a step, even if its requests already decide (for the reason see
    docs/canary-gate.md#simulated-rollouts). `failing`: the share of requests that may fail, the error budget. `slower`: a
    new version may not be slower than the old one by this share of the old version's time in the model.
    """

    requests: int = 100
    seconds: float = 150.0
    failing: float = 1 - objectives.AVAILABILITY
    slower: float = 0.2


@dataclass(frozen=True)
class Limits:
    """Time limits in seconds, except `terms`.

    `load`: to load one model on one pod, with download and warm-up; a starting pod has the same time. `restart`: until a
    restarted pod's replacement serves, including a new node. `canary`: until the requests of a step show by `terms` whether
    the new versions are right. `watch`: how long new versions with all requests are judged, while the old ones stay loaded
    for a rollback. `drain`: until no client requests a version any more. That is so when no request for it finished or was
    pending for `quiet` seconds. These are longer than clients need to learn of a new version, plus their longest request.
    `settle`: until a pod has finished the work of an unloaded version. `poll`: between two looks.
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
    """Yield loop turns every `poll` seconds until `seconds` are over, the first one at once. Call `check` before each."""
    deadline = time.monotonic() + seconds
    while True:
        check()
        yield
        left = deadline - time.monotonic()
        if left <= 0:
            return
        time.sleep(min(poll, left))
