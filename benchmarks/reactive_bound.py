"""Compute the least misses of any reactive autoscaling rule: a bound, not a rule.

The rules see the load of each second at once, but not the next second's. They want the pods for it and a number of spare
pods that is equal at every load; while a pod is slow they may want more. The bound gives them advantages that no rule has.
Spare pods may be fractions, arrivals are even, and a pod serves for the rest of the trace once it was wanted. Paid is only
the time in which the load needs the pod, and in which a node without pods is kept; one such node is removed per minute
(`twin.replay.capacity`).

A floor (`minReplicas`) is none of these rules, because it spares more at a low load than at a high one. With the same hours,
it may miss less of a crowd. Under an even load, with a slow pod, it is one of them: there it spares the same at every load.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np

from twin.replay.capacity import BETWEEN_REMOVALS_SECONDS, KEEP_EMPTY_SECONDS
from twin.replay.plan import Plan
from twin.replay.service import Service
from twin.replay.serving import Server
from twin.replay.traces import Rates, SlowPod, Trace

_HOUR = 3600
_STEP = 0.05
"""Step between two tried numbers of spare pods, in pods."""


@dataclass(frozen=True)
class ReactiveBound:
    """The bound for a trace of one model, with one node per pod."""

    plan: Plan
    trace: Trace
    fewest: int
    most: int

    def least_hours(self) -> float:
        """Return the GPU-hours of the pods for the load, without spare pods."""
        return self._hours(0.0)

    def missed_percent(self, gpu_hours: float) -> float | None:
        """Return the least share of missed requests within these hours; None if they are too few."""
        if gpu_hours < self.least_hours():
            return None
        missed = self._beside_slow(self.trace.slow_pod, gpu_hours) if self.trace.slow_pod else self._following(gpu_hours)
        return 100 * missed / float(self._rates.sum())

    @property
    def _rates(self) -> Rates:
        (rates,) = self.trace.rates.values()
        return rates

    @property
    def _service(self) -> Service:
        return self.plan.models[0].service

    @property
    def _start(self) -> int:
        return round(self.plan.starts.node + self.plan.starts.pod)

    def _pods(self, spare: float) -> Rates:
        """Return the wanted pods of each second."""
        return np.clip(np.ceil(self._rates / self._service.capacity) + spare, self.fewest, self.most)

    def _hours(self, spare: float) -> float:
        needed = _highest(self._pods(spare), KEEP_EMPTY_SECONDS)
        return float(_one_at_a_time(needed, BETWEEN_REMOVALS_SECONDS).sum()) / _HOUR

    def _following(self, gpu_hours: float) -> float:
        """Return the requests that no pod answers in time, with the spare pods that the hours pay for."""
        spares = np.arange(0.0, self.most + _STEP, _STEP)
        paid = [spare for spare in spares if self._hours(spare) <= gpu_hours]
        wanted = self._pods(paid[-1])
        serve = np.concatenate([np.full(self._start, wanted[0]), np.maximum.accumulate(wanted)])[: len(wanted)]
        able, lost, backlog = serve * self._service.capacity, 0.0, 0.0
        waits = self.plan.models[0].slo_seconds - self._service.one
        for rate, most in zip(self._rates.tolist(), able.tolist(), strict=True):
            backlog = max(0.0, backlog + rate - most)
            if backlog > most * waits:  # requests that wait longer are late, even in a batch by themselves
                lost += backlog - most * waits
                backlog = most * waits
        return lost

    def _beside_slow(self, slow: SlowPod, gpu_hours: float) -> float:
        """Return the requests that a slow pod does not answer in time, with the best split of the hours.

        The load is even, and so is the number of pods until the slow pod is noticed; further wanted pods arrive one start
        later. Each pod gets the same number of requests, so more pods relieve the slow one.
        """
        before = np.arange(float(self._pods(0.0).max()), self.most + _STEP, _STEP)
        seconds = len(self._rates)
        while_more = min(slow.ends + KEEP_EMPTY_SECONDS, seconds) - slow.begins
        more = np.minimum((gpu_hours * _HOUR - before * (seconds - while_more)) / while_more, self.most)
        before, more = before[more >= before], more[more >= before]
        alone = min(self._start, slow.ends - slow.begins)
        pods, missed = _of_a_slow_pod(self._service, self.plan.models[0].slo_seconds, slow.factor, float(self._rates[0]))
        of_before, of_more = (np.interp(found, pods, missed) for found in (before, more))
        return float((of_before * alone + of_more * (slow.ends - slow.begins - alone)).min())


def _highest(values: Rates, seconds: int) -> Rates:
    """Return for each second the highest value of the last `seconds` seconds."""
    found, span = values.copy(), 1
    while span < seconds:
        shift = min(span, seconds - span)
        found[shift:] = np.maximum(found[shift:], found[:-shift])
        span += shift
    return found


def _one_at_a_time(values: Rates, seconds: int) -> Rates:
    """Return the smallest values at or above these that fall by at most 1 in `seconds` seconds."""
    found = values.copy()
    for steps in range(1, 1 + min(math.ceil(values.max() - values.min()), (len(values) - 1) // seconds)):
        shift = steps * seconds
        found[shift:] = np.maximum(found[shift:], values[:-shift] - steps)
    return found


@cache
def _of_a_slow_pod(service: Service, slo_seconds: float, factor: float, rate: float) -> tuple[Rates, Rates]:
    """Return the requests that the slow pod misses per second, by the number of pods that share a rate.

    Like `twin replay` with random arrivals and a queue that drops late requests.
    """
    pods = np.arange(1.0, 20.5, 0.5)
    arrivals = np.random.default_rng(1).poisson(rate, 600)
    missed = []
    for number in pods:
        server = Server(service.slowed(factor), slo_seconds, max(0.0, slo_seconds - service.full))
        missed.append(sum(sum(server.second(arriving / number)) for arriving in arrivals.tolist()) / len(arrivals))
    return pods, np.array(missed)
