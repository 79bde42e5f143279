"""How long a pod's instances of a model take for a batch, and the effect of that at a rate of requests.

The times come from `modelctl tune` if the stack file names its evidence, else they are given, else assumed. Assumed times
split the SLO like the alerts and the derived targets (`spec.scaling.signal.pending_target`): half for waiting, half for a
batch. All times are for a GPU that executes nothing else. If a time was measured or assumed with other
executions, only the model's own share is used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from spec.prometheus.gpu_load import gpu_models, shares_gpus
from spec.scaling.signal import GPU_LOAD_SHARE
from spec.settings import Settings
from spec.settings.relations.triton import instances_per_pod
from spec.settings.serving import ModelServing
from stackctl.cost.throughput import Measured

_ROUNDS = 30
"""Number of iterations until a batch and its time agree."""
ASSUMED = "assumed"
"""The source of service times that were neither measured nor given."""
ONE_OF_FULL = 0.5
"""The time of a batch of one is assumed to be this share of the time of a full batch."""


@dataclass(frozen=True, slots=True)
class Steady:
    """A second at a rate that a pod keeps up with.

    `share`: the part of it in which all instances are busy when a request arrives.
    """

    executions: float
    batch_seconds: float
    share: float


@dataclass(frozen=True)
class Service:
    """A batch takes `one` second alone and `full` with `batch` requests, and in between in proportion.

    `gpus`: the GPUs that its instances share with all other executions of the pod; 0 for a model on CPUs.
    """

    instances: int
    batch: float
    one: float
    full: float
    source: str
    gpus: int = 0
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
        """Return the highest requests/s of a pod if the model has the GPUs to itself."""
        return (min(self.instances, self.gpus) if self.gpus else self.instances) * self.batch / self.full

    def slowed(self, factor: float) -> Service:
        """Return the same service on a pod that takes `factor` times as long."""
        return replace(self, one=self.one * factor, full=self.full * factor, _known={})

    def seconds_of(self, size: float) -> float:
        """Return how long a batch of this size takes."""
        return self.one + (self.full - self.one) * (size - 1) / (self.batch - 1) if self.batch > 1 else self.full

    def steady(self, rate: float) -> Steady:
        """Return what a pod does at a rate of at most its capacity, without a backlog."""
        known = self._known.get(rate)
        if known is None:
            known = self._known[rate] = self._steady(rate)
        return known

    def _steady(self, rate: float) -> Steady:
        """Compute a steady second by iterating until the batch size and its time agree.

        Requests that arrive at random while an instance is busy form its next batch. Without any, it idles until one comes.
        During a batch of duration `t`, `rate * t` requests are expected, and none with probability `exp(-rate * t)`.
        In the latter case the next request is a batch alone.
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
    gpus = settings.triton.gpus if wants.device == "gpu" else 0
    batch, half = settings.models.largest_batch(model), wants.slo_p95_ms / 2000
    if given is not None:
        one, full = (milliseconds / 1000 for milliseconds in given)
        return Service(instances, batch, one if batch > 1 else full, full, "given", gpus)
    if measured is not None:
        # This is the batch that instances form at the highest rate within the SLO; a batch has half of the SLO. On a GPU,
        # the batches of the model's other instances run next to it.
        formed, beside = measured.rate * half / instances, max(1, instances // gpus) if gpus else 1
        source = f"measured: {measured.where}"
        if formed < 1:
            each = instances / measured.rate / beside
            return Service(instances, 1, each, each, source, gpus)
        full = half / beside
        alone = measured.lone_ms / 1000 if measured.lone_ms is not None else full * ONE_OF_FULL
        return Service(instances, formed, min(max(alone, full / formed), full), full, source, gpus)
    full = half * _alone(settings) if gpus else half
    return Service(instances, batch, full * ONE_OF_FULL if batch > 1 else full, full, ASSUMED, gpus)


def _alone(settings: Settings) -> float:
    """Return the share of an execution's time that it would need on an idle GPU.

    The measured time is from a GPU that is as busy as in a fleet of several models.
    """
    instances = sum(gpu_models(settings).values()) / max(1, settings.triton.gpus)
    return 1 - GPU_LOAD_SHARE * (instances - 1) / instances if shares_gpus(settings) else 1
