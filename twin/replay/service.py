"""How long a pod's instances of a model take for a batch, and what that makes of a rate of requests.

The times are those of `modelctl tune` where the stack file names its evidence, else given, else assumed: the split of the
SLO that the alerts and the derived targets have (`spec.scaling.signal.pending_target`), half for waiting, half for a batch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from spec.settings import Settings
from spec.settings.instances import instances_per_pod
from spec.settings.serving import ModelServing
from stackctl.cost.throughput import Measured

_ROUNDS = 30
"""Until a batch and its time agree."""
ASSUMED = "assumed"
"""The source of service times that nobody has measured."""
ONE_OF_FULL = 0.5
"""Of the time of a full batch, what a batch of one is assumed to take."""


@dataclass(frozen=True, slots=True)
class Steady:
    """A second at a rate that a pod keeps up with. `share`: of it during which an arriving request finds all busy."""

    executions: float
    batch_seconds: float
    share: float


@dataclass(frozen=True)
class Service:
    """A batch takes `one` second alone and `full` with `batch` requests, and in between in proportion."""

    instances: int
    batch: float
    one: float
    full: float
    source: str
    _known: dict[float, Steady] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not (math.isfinite(self.full) and 0 < self.one <= self.full and self.batch >= 1 and self.instances >= 1):
            raise ValueError(f"a batch of {self.batch:g} in {self.one:g} to {self.full:g} s is no service")
        if self.full > self.one * self.batch * (1 + 1e-9):
            raise ValueError(
                f"a batch of {self.batch:g} in {self.full:g} s takes longer than one by one, {self.one:g} s each"
            )

    @property
    def capacity(self) -> float:
        """Return the most requests/s that a pod answers."""
        return self.instances * self.batch / self.full

    def slowed(self, factor: float) -> Service:
        """Return the same on a pod that takes `factor` times as long."""
        return Service(self.instances, self.batch, self.one * factor, self.full * factor, self.source)

    def steady(self, rate: float) -> Steady:
        """Return what a pod does at a rate of at most its capacity, and no backlog."""
        known = self._known.get(rate)
        if known is None:
            known = self._known[rate] = self._steady(rate)
        return known

    def _steady(self, rate: float) -> Steady:
        """Requests that come by chance while an instance is busy are its next batch; it is idle until one comes after none.

        Of a batch that takes `t`, `rate * t` are expected to come meanwhile, and with the probability `exp(-rate * t)` none,
        after which the next one is a batch alone.
        """
        each = rate / self.instances
        if self.batch == 1:
            return Steady(rate, self.one, min(1.0, each * self.one))
        per_request = (self.full - self.one) / (self.batch - 1)
        size = 1.0
        for _ in range(_ROUNDS):
            taken = self.one + per_request * (size - 1)
            size = min(self.batch, each * taken + math.exp(-each * taken))
        taken = self.one + per_request * (size - 1)
        share = min(1.0, each * taken / size)
        return Steady(self.instances * share / taken, taken, share)


def service_of(
    settings: Settings, model: str, wants: ModelServing, measured: Measured | None, given: tuple[float, float] | None
) -> Service:
    """Return the service of a model in one pod of a fleet. `given`: milliseconds of a batch of one, and of a full one."""
    instances = instances_per_pod(settings, model, wants)
    batch, half = settings.models.largest_batch(model), wants.slo_p95_ms / 2000
    if given is not None:
        one, full = (milliseconds / 1000 for milliseconds in given)
        return Service(instances, batch, one if batch > 1 else full, full, "given")
    if measured is not None:
        # The batch that instances form at the highest rate that holds the SLO, of which a batch has half.
        formed = measured.rate * half / instances
        if formed < 1:
            return Service(instances, 1, instances / measured.rate, instances / measured.rate, f"measured: {measured.where}")
        alone = measured.lone_ms / 1000 if measured.lone_ms is not None else half * ONE_OF_FULL
        return Service(instances, formed, min(max(alone, half / formed), half), half, f"measured: {measured.where}")
    return Service(instances, batch, half * ONE_OF_FULL if batch > 1 else half, half, ASSUMED)
