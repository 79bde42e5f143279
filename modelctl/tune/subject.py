"""The subject of tuning, as the search uses it. It serves a candidate and is then loaded at a rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from modelctl.loadgen import Summary
from modelctl.tune.candidate import Candidate
from modelctl.tune.gpu_memory import MemoryUse


@dataclass(frozen=True)
class Probe:
    """One load of Poisson arrivals at `rate` requests/s, and whether its latencies stayed within the SLO."""

    rate: float
    seed: int
    held: bool
    summary: Summary


class Subject(Protocol):
    """A served model. Each method may raise TuneError."""

    def use(self, candidate: Candidate) -> None:
        """Serve with these values from now on."""

    def lone_p95_ms(self) -> float:
        """Return the p95 in ms of requests that are sent one at a time."""

    def probe(self, rate: float, seconds: float, seed: int) -> Probe:
        """Run a load and return whether the SLO held. Stop a load early if the SLO can no longer hold."""

    def gpu_memory(self) -> MemoryUse | None:
        """Return the GPU memory used since `use`; None if it is unknown."""
