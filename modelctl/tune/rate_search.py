"""Find the highest rate at which the SLO holds with a few short loads."""

from __future__ import annotations

import math
from collections.abc import Callable

from modelctl.tune.subject import Probe

RESOLUTION = 0.06
"""The search ends when the lowest failed rate is within this share of the highest held rate.

Shorter loads cannot measure more precisely.
"""

COARSE = 1.3
"""The same for a candidate that has lost already: the optimiser needs only a rough rate."""

STEP = 1.5
MOST_PROBES = 9
LOWEST_RATE = 0.01
"""Lowest requests/s that is searched: below, the 100 requests of one load would take three hours."""


def highest_rate(probe: Callable[[float], Probe], guess: float, to_beat: float = 0.0, breaks: float = math.inf) -> float:
    """Return requests/s, 0 if the SLO held at no tried rate. `to_beat` is the best rate of the candidates so far.

    From `guess` the rate is raised until the SLO breaks, or lowered until it holds; then the gap is halved (in ratio).
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
