"""The SLO of a tuning run, and the loads that check it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from modelctl.loadgen.result import rank
from spec import objectives


@dataclass(frozen=True)
class Length:
    """The minimum length of a load.

    `late`: the number of requests that may be late in it. This number scatters by its square root. So with 20 the share is
    known to within 1.96 / sqrt(20) = 44 % of itself (95 % confidence). For example, 5 % of 400 late means 3.2 to 7.6 % late
    in the long run.

    `slos`: multiples of the SLO's time. At a rate above the server's capacity, the wait grows as long as the load lasts,
    until it is longer than the SLO. Five times the SLO show a rate that is 21 % too high, ten times a rate that is 11 % too
    high.
    """

    late: int
    slos: float


TO_COMPARE = Length(late=2, slos=5)
"""For loads that compare candidates: 40 requests for p95, 200 for p99."""

TO_CLAIM = Length(late=20, slos=10)
"""For the load that proves the result: 400 requests for p95, 2000 for p99."""

STALL_MS = 500.0
"""A server may leave a request in a bounded queue for this long: docs/serving.md#known-limits-of-the-server."""

BUSY_AT_LOW_RATE = 0.3
"""Maximum utilization of a single instance at a low rate. Then a request is late because of a stall, not of the queue."""


@dataclass(frozen=True)
class Goal:
    """The SLO in ms, the time budget of the search in seconds, and its random seed.

    `low_rates`: whether the SLO has to hold at a low rate, too. False for sequences, because too few would be open.
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
        """Return the share of requests that must be in time. The SLO that is harder to measure counts."""
        return objectives.LATENCY if self.slo_p99_ms is None else objectives.TAIL_LATENCY

    @property
    def objective_ms(self) -> float:
        """Return the time in ms in which that share must be answered."""
        return self.slo_p95_ms if self.slo_p99_ms is None else self.slo_p99_ms

    def requests(self, length: Length) -> int:
        """Return how many requests a load needs so that `length.late` of them may be late."""
        return math.ceil(round(length.late / (1 - self.objective), 6))

    def probe_seconds(self, rate: float, length: Length) -> float:
        """Return the seconds of a load at `rate`. They are a hundredth of the budget, 1 to 6 s, or longer if `length`
        requires it."""
        usual = min(max(self.budget_seconds / 100, 1.0), 6.0)
        return max(usual, self.least_seconds(rate, length), self.overload_seconds(length))

    def overload_seconds(self, length: Length) -> float:
        """Return the minimum seconds of a load that shows that a rate is too high."""
        return length.slos * self.objective_ms / 1000

    def least_seconds(self, rate: float, length: Length) -> float:
        """Return the seconds of a load at `rate` with the requests that its percentile needs.

        Three standard deviations are added, because arrivals are Poisson distributed.
        """
        fewest = self.requests(length)
        return (fewest + 3 * math.sqrt(fewest)) / rate

    def low_rate(self, lone_ms: float) -> float | None:
        """Return the requests/s at which stalls make the largest share late. None if they cannot break the SLO.

        A request that arrives while the only instance is busy may stay in the queue until the next one arrives, or for
        STALL_MS. It is late if none arrives in the time that the SLO leaves. At a lower rate fewer requests meet a busy
        instance; at a higher rate the next one arrives soon. `lone_ms` is the latency of a single request without others.
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
        """Return the minimum long-run share of requests in time, after a load of `requests` requests. The load just held the
        SLO.

        The lower end of Wilson's interval, 95 % confidence on both sides.
        """
        z, share = 1.96, rank(100 * self.objective, requests) / requests
        centre = share + z**2 / (2 * requests)
        spread = z * math.sqrt(share * (1 - share) / requests + z**2 / (4 * requests**2))
        return (centre - spread) / (1 + z**2 / requests)
