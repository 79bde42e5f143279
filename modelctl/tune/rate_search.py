"""The highest rate at which the SLO holds, by a few short loads."""

from __future__ import annotations

import math
from collections.abc import Callable

from modelctl.tune.subject import Probe

RESOLUTION = 0.06
"""The highest rate that held and the lowest that did not are brought this close, as a share: shorter loads tell no more."""

COARSE = 1.3
"""The same for a candidate that has lost already: the optimiser only has to know that it is bad, and about how bad."""

STEP = 1.5
MOST_PROBES = 9
LOWEST_RATE = 0.01
"""Requests/s below which nothing is searched: the 100 requests of one load would take three hours."""


def highest_rate(probe: Callable[[float], Probe], guess: float, to_beat: float = 0.0, breaks: float = math.inf) -> float:
    """Return requests/s, 0 when the SLO holds at no rate that was tried. `to_beat` is the best of the candidates so far.

    From `guess` the rate is raised until the SLO breaks or lowered until it holds, then the gap is halved (in ratio).
    `breaks` is a rate that is known to break it.
    """
    holds = 0.0
    rate = max(guess, LOWEST_RATE)
    for _ in range(MOST_PROBES):
        if probe(rate).held:
            holds = rate
        else:
            breaks = rate
        close = COARSE if breaks <= to_beat else RESOLUTION
        if breaks <= holds * (1 + close) or breaks <= LOWEST_RATE:
            break
        if math.isinf(breaks):
            rate = holds * STEP
        elif holds == 0:
            rate = max(breaks / STEP**2, LOWEST_RATE)
        else:
            rate = math.sqrt(holds * breaks)
    return holds
