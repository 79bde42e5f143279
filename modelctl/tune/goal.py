"""The SLO that tuning keeps to, and how long and at what low rate a load has to be to tell whether it holds."""

from __future__ import annotations

import math
from dataclasses import dataclass

from modelctl.loadgen.result import rank
from spec import objectives


@dataclass(frozen=True)
class Length:
    """How long a load has to be, at least.

    `late`: requests that may be late in it. How many are scatters by the square root of that number, so that of 20 the share
    is known to within 1.96 / sqrt(20) = 44 % of itself (95 % confidence): who sees 5 % of 400 late has 3.2 to 7.6 % late in
    the long run.

    `slos`: times of the SLO. At a rate above what the server answers, the wait grows from nothing as long as the load lasts,
    and misses the SLO once it is longer than that. Five times the SLO show a rate that is 21 % too high, ten times one that
    is 11 % too high.
    """

    late: int
    slos: float


TO_COMPARE = Length(late=2, slos=5)
"""Of a load that candidates are compared by: 40 requests for p95, 200 for p99."""

TO_CLAIM = Length(late=20, slos=10)
"""Of the load that the result rests on: 400 requests for p95, 2000 for p99."""

STALL_MS = 500.0
"""A server may leave a request for so long in a bounded queue: docs/serving.md#known-limits-of-the-server."""

BUSY_AT_LOW_RATE = 0.3
"""Of a single instance, at most: a request that is late at a low rate is so by a stall, and not by the queue before it."""


@dataclass(frozen=True)
class Goal:
    """The SLO that the search keeps to (ms), how long it may take (seconds), and the seed of everything random in it.

    `low_rates`: whether the SLO has to hold at a low rate, too. Not of sequences, of which too few would be open.
    """

    slo_p95_ms: float
    budget_seconds: float
    seed: int
    slo_p99_ms: float | None = None
    low_rates: bool = True

    def __str__(self) -> str:
        also = f" and p99 <= {self.slo_p99_ms:g} ms" if self.slo_p99_ms is not None else ""
        return f"p95 <= {self.slo_p95_ms:g} ms{also}"

    @property
    def objective(self) -> float:
        """Return the share of the requests that has to be in time by the SLO that is the harder one to measure."""
        return objectives.LATENCY if self.slo_p99_ms is None else objectives.TAIL_LATENCY

    @property
    def objective_ms(self) -> float:
        """Return the time in which that share has to be answered."""
        return self.slo_p95_ms if self.slo_p99_ms is None else self.slo_p99_ms

    def requests(self, length: Length) -> int:
        """Return how many requests a load needs so that `length.late` of them may be late."""
        return math.ceil(round(length.late / (1 - self.objective), 6))

    def probe_seconds(self, rate: float, length: Length) -> float:
        """Return how long a load at `rate` lasts: a hundredth of the budget, 1 to 6 s, longer where `length` asks for it."""
        usual = min(max(self.budget_seconds / 100, 1.0), 6.0)
        return max(usual, self.least_seconds(rate, length), self.overload_seconds(length))

    def overload_seconds(self, length: Length) -> float:
        """Return the least length of a load that shows a rate as too high."""
        return length.slos * self.objective_ms / 1000

    def least_seconds(self, rate: float, length: Length) -> float:
        """Return the length of a load at `rate` that has the requests which its percentile needs.

        Three standard deviations are added, because arrivals are Poisson's.
        """
        fewest = self.requests(length)
        return (fewest + 3 * math.sqrt(fewest)) / rate

    def low_rate(self, lone_ms: float) -> float | None:
        """Return the requests/s at which stalls make the largest share late; None where they cannot break the SLO.

        A request that comes while the only instance is busy may be left in the queue until the next one comes, or for
        STALL_MS, and is late then when none comes in what the SLO leaves it. At a lower rate fewer requests come upon a busy
        instance, at a higher one the next comes soon. `lone_ms` is how long a lone request takes.
        """
        slos = [(self.slo_p95_ms, objectives.LATENCY)]
        if self.slo_p99_ms is not None:
            slos.append((self.slo_p99_ms, objectives.TAIL_LATENCY))
        for slo_ms, objective in slos if self.low_rates else ():
            left = slo_ms - lone_ms
            if 0 < left < STALL_MS:
                per_ms = min(1 / left, BUSY_AT_LOW_RATE / lone_ms)
                if per_ms * lone_ms * math.exp(-per_ms * left) > 1 - objective:
                    return 1000 * per_ms
        return None

    def within_at_least(self, requests: int) -> float:
        """Return the share that is in time in the long run, at least, where a load of so many requests just held the SLO.

        The lower end of Wilson's interval, 95 % confidence on both sides.
        """
        z, share = 1.96, rank(100 * self.objective, requests) / requests
        centre = share + z**2 / (2 * requests)
        spread = z * math.sqrt(share * (1 - share) / requests + z**2 / (4 * requests**2))
        return (centre - spread) / (1 + z**2 / requests)
