"""The schedule of a load: when its requests are due."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Self

MOST_REQUESTS = 1_000_000
"""Maximum number of requests; a larger schedule is refused as a mistaken unit."""


@dataclass(frozen=True)
class Schedule:
    """Due times in seconds after the start, ascending, and the duration of the whole load."""

    due: tuple[float, ...]
    seconds: float

    def __post_init__(self) -> None:
        if list(self.due) != sorted(self.due) or (self.due and not 0 <= self.due[0] <= self.due[-1] <= self.seconds):
            raise ValueError(f"due times must ascend within 0 and {self.seconds} s")

    @classmethod
    def poisson(cls, rate: float, seconds: float, seed: int) -> Self:
        """Return a schedule of independent clients: exponential gaps, `rate` requests/s on average, the same for a seed."""
        _check(rate, seconds)
        # Deliberately repeatable; it is not used for secrets.
        source = random.Random(seed)  # noqa: S311
        due: list[float] = []
        moment = source.expovariate(rate)
        while moment < seconds:
            due.append(moment)
            moment += source.expovariate(rate)
        return cls(tuple(due), seconds)

    @classmethod
    def constant(cls, rate: float, seconds: float) -> Self:
        """Return a schedule with a request every 1/rate seconds, the first at once."""
        _check(rate, seconds)
        return cls(tuple(number / rate for number in range(int(rate * seconds))), seconds)

    @property
    def rate(self) -> float:
        """Return the scheduled requests/s; a Poisson schedule differs a little from its requested rate."""
        return len(self.due) / self.seconds


def _check(rate: float, seconds: float) -> None:
    if rate <= 0 or seconds <= 0:
        raise ValueError(f"a load needs a positive rate and length, not {rate} requests/s for {seconds} s")
    if rate * seconds > MOST_REQUESTS:
        raise ValueError(f"{rate} requests/s for {seconds} s are more than {MOST_REQUESTS} requests")
