"""One fleet under a trace, second by second: serve and scrape requests, record, decide, add and remove pods.

The order within a second follows the flow of data. Each part has its own clock: the scrapes of each pod, the evaluation of
the rules, KEDA's polling and the autoscaler's sync. The clocks start at random seconds drawn from the seed, because they
are not aligned in a cluster either.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import repeat

import numpy as np

from spec.prometheus.rule import TRITON_SCRAPE_SECONDS
from twin.replay.capacity import Cluster, Pod
from twin.replay.contention import LONG_SECONDS, server, stretches
from twin.replay.controllers import Seen
from twin.replay.hpa import SYNC_SECONDS
from twin.replay.outcome import Moment, Outcome
from twin.replay.plan import Plan
from twin.replay.traces import EVERY, Rates, Trace, TraceUnusable

SETTLE_SECONDS = 3600
"""The fleet starts this long before the trace, at its first rates, with the minimum of pods; this time is not counted."""
_SEED = 1
_MOMENTS = 96
CROWDED = 0.85
"""Above this load, waiting times grow fast; the seconds above it are counted."""
_CHUNK = 86_400


@dataclass(frozen=True)
class Clocks:
    """The first seconds of periodic events: scrapes of each new pod, rules, KEDA's polls, the autoscaler's syncs."""

    scrapes: Iterator[int]
    rules: int
    poll: int
    sync: int

    @classmethod
    def drawn(cls, seed: int) -> Clocks:
        """Return random seconds."""
        source = random.Random(seed)  # noqa: S311 - repeatable on purpose
        rules, poll, sync = (source.randrange(TRITON_SCRAPE_SECONDS) for _ in range(3))
        return cls((source.randrange(TRITON_SCRAPE_SECONDS) for _ in repeat(None)), rules, poll, sync)


def simulate(
    plan: Plan,
    trace: Trace,
    *,
    everybody: Mapping[str, float],
    sync_seconds: int = SYNC_SECONDS,
    seed: int = _SEED,
    clocks: Clocks | None = None,
    settle_seconds: int | None = None,
) -> Outcome:
    """Return the outcome of a trace.

    `everybody`: the expected rate of each model of the stack, by which rates of EVERY are divided. `seed`: for the requests
    of each second, and for the clocks if none are given. `settle_seconds`: time before the trace at its first rates, which
    is not counted; an hour by default.
    """
    simulation = _Simulation(plan, trace, everybody, sync_seconds, seed, clocks or Clocks.drawn(seed))
    return simulation.run(SETTLE_SECONDS if settle_seconds is None else settle_seconds)


def check(trace: Trace, models: Mapping[str, float], stack: str) -> None:
    """Raise TraceUnusable for a trace with models that the stack does not serve."""
    unknown = sorted(model for model in trace.rates if model is not EVERY and model not in models)
    if unknown:
        raise TraceUnusable(
            f"--trace {trace.name}: {stack} does not serve {', '.join(unknown)}; it serves {', '.join(sorted(models))} "
            "(an ensemble's requests are those of its steps)"
        )


class _Simulation:
    def __init__(
        self, plan: Plan, trace: Trace, everybody: Mapping[str, float], sync_seconds: int, seed: int, clocks: Clocks
    ) -> None:
        self._plan, self._trace = plan, trace
        self._rates = [_of_model(trace, model.name, everybody) * model.share for model in plan.models]
        self._sync, self._clocks = sync_seconds, clocks
        self._requests = np.random.default_rng(seed)
        self._cluster = Cluster(plan.pool, plan.starts)
        self._controller = plan.controller()
        self._ended: list[Pod] = []
        self._services = [model.service for model in plan.models]
        self._slow = [service.slowed(trace.slow_pod.factor) if trace.slow_pod else service for service in self._services]
        self._gpus = max((service.gpus for service in self._services), default=0)
        # A single instance shares no GPU, so the arithmetic is skipped.
        self._shares = sum(service.instances for service in self._services if service.gpus) > self._gpus
        self._long = [service.one >= LONG_SECONDS for service in self._services]
        self._turns = [0] * len(self._services)
        self._window = max(model.window_seconds for model in plan.models)
        self._recorded: tuple[dict[str, list[float]], dict[str, list[float]]] = ({}, {})
        self.outcome = Outcome(
            seconds=trace.seconds, gpus_per_node=plan.pool.gpus_per_node, usd_per_hour=plan.pool.usd_per_hour
        )
        self._stretch = max(1, trace.seconds // _MOMENTS)
        self._sums = [0.0] * 5
        self._short = 0

    def run(self, settle_seconds: int) -> Outcome:
        self._cluster.begin([self._new() for _ in range(self._plan.fewest)], -settle_seconds)
        first = [np.full(settle_seconds, rates[0]) for rates in self._rates]
        self._chunk(first, -settle_seconds, counted=False)
        self.outcome.wanted.append((0, len(self._cluster.pods)))
        for begins in range(0, self._trace.seconds, _CHUNK):
            self._chunk([rates[begins : begins + _CHUNK] for rates in self._rates], begins, counted=True)
        if self._short:
            self.outcome.shortages.append(self._short)
        return self.outcome

    def _chunk(self, rates: list[Rates], begins: int, *, counted: bool) -> None:
        arrivals = [self._requests.poisson(of_model).tolist() for of_model in rates]
        for offset, arriving in enumerate(zip(*arrivals, strict=True)):
            now = begins + offset
            self._second(now, arriving, [of_model[offset] for of_model in rates], counted)
            self._look(now, counted)

    def _second(self, now: int, arriving: tuple[int, ...], rates: list[float], counted: bool) -> None:
        cluster, slow = self._cluster, self._trace.slow_pod
        if slow is not None and now in (slow.begins, slow.ends):
            services = self._slow if now == slow.begins else self._services
            for one, service in zip(cluster.pods[0].servers, services, strict=True):
                one.service = service
        ready = [pod for pod in cluster.pods if pod.ready_at is not None and pod.ready_at <= now]
        late = rejected = 0.0
        scrape = now % TRITON_SCRAPE_SECONDS
        if ready:
            shares = [self._shares_of(place, requests, len(ready)) for place, requests in enumerate(arriving)]
            for number, pod in enumerate(ready):
                stretched = stretches(pod.servers, self._gpus) if self._shares else repeat(1.0)
                for one, of_pods, stretch in zip(pod.servers, shares, stretched, strict=False):
                    some_late, some_rejected = one.second(of_pods[number], stretch)
                    late += some_late
                    rejected += some_rejected
                if pod.scrape_at == scrape and not self._is_away(now):
                    for one in pod.servers:
                        one.scrape(now)
        else:
            rejected = float(sum(arriving))
        if counted:
            self._count(now, sum(arriving), late, rejected, ready, rates)

    def _count(self, now: int, requests: int, late: float, rejected: float, ready: list[Pod], rates: list[float]) -> None:
        outcome, cluster = self.outcome, self._cluster
        outcome.requests += requests
        outcome.late += late
        outcome.rejected += rejected
        outcome.node_seconds += len(cluster.nodes)
        outcome.pod_seconds += len(cluster.pods)
        outcome.most_pods = max(outcome.most_pods, len(cluster.pods))
        load = self._load(ready, rates)
        outcome.crowded_seconds += int(load > CROWDED)
        if load > 1:
            self._short += 1
        elif self._short:
            outcome.shortages.append(self._short)
            self._short = 0
        for place, number in enumerate((requests, len(cluster.pods), len(ready), late + rejected, 1)):
            self._sums[place] += number
        if (now + 1) % self._stretch == 0:
            asked, wanted, served, missed, seconds = self._sums
            outcome.moments.append(
                Moment(now + 1, asked / seconds, wanted / seconds, served / seconds, missed / asked if asked else 0.0)
            )
            self._sums = [0.0] * 5

    def _shares_of(self, place: int, requests: int, pods: int) -> list[float]:
        """Return the requests of a model for each pod: equal parts or, for long executions, whole requests in turn."""
        if not self._long[place]:
            return [requests / pods] * pods
        each, more = divmod(requests, pods)
        first = self._turns[place]
        self._turns[place] = (first + more) % pods
        return [float(each + ((number - first) % pods < more)) for number in range(pods)]

    def _load(self, ready: list[Pod], rates: list[float]) -> float:
        """Return the share of the ready pods' capacity that requests take: of the GPUs, or of one model on CPUs."""
        shared, most = 0.0, 0.0
        for place, rate in enumerate(rates):
            capacity = sum(pod.servers[place].service.capacity for pod in ready)
            part = rate / capacity if capacity else math.inf if rate else 0.0
            if self._services[place].gpus:
                shared += part
            else:
                most = max(most, part)
        return max(shared, most)

    def _look(self, now: int, counted: bool) -> None:
        """Run the clocks of Prometheus, KEDA and the autoscaler."""
        if now % TRITON_SCRAPE_SECONDS == self._clocks.rules:
            self._record(now)
        polls = self._controller.poll_seconds
        if polls is not None and now % polls == self._clocks.poll % polls:
            self._controller.poll(self._seen(now))
        if now % self._sync == self._clocks.sync % self._sync:
            current = len(self._cluster.pods)
            wanted = self._controller.decide(now, self._trace.begins + now, self._seen(now))
            for _ in range(wanted - current):
                self._cluster.add(self._new(), now)
            for _ in range(current - wanted):
                self._end(now)
            if wanted != current and counted:
                self.outcome.wanted.append((now, wanted))
            self._cluster.settle(now)

    def _record(self, now: int) -> None:
        if self._is_away(now):
            self._recorded = ({}, {})
            return
        self._ended = [pod for pod in self._ended if pod.servers[0].target.samples[-1].at > now - self._window]
        self._recorded = (self._evaluated(self._cluster.pods, now), self._evaluated(self._ended, now))

    def _evaluated(self, pods: list[Pod], now: int) -> dict[str, list[float]]:
        names = [model.name for model in self._plan.models]
        targets = [dict(zip(names, (one.target for one in pod.servers), strict=True)) for pod in pods]
        found: dict[str, list[float]] = {}
        for number in self._plan.numbers:
            values = [number.of(of_pod, now) for of_pod in targets]
            found[number.name] = [value for value in values if value is not None]
        return found

    def _seen(self, now: int) -> Seen:
        pods = self._cluster.pods
        pending = sum(pod.is_pending(now) for pod in pods)
        values, ended = ({}, {}) if self._is_away(now) else self._recorded
        return Seen(values, ended, len(pods), pending)

    def _is_away(self, now: int) -> bool:
        outage = self._trace.outage
        return outage is not None and outage.begins <= now < outage.ends

    def _new(self) -> Pod:
        servers = [
            server(one.service, one.slo_seconds, one.timeout_seconds, one.window_seconds) for one in self._plan.models
        ]
        return Pod(servers, next(self._clocks.scrapes))

    def _end(self, now: int) -> None:
        pod = self._cluster.last(now)
        self._cluster.remove(pod)
        if pod.servers[0].target.samples:
            self._ended.append(pod)


def _of_model(trace: Trace, model: str, everybody: Mapping[str, float]) -> Rates:
    """Return the requests of a model, including its share of requests that name no model."""
    rates = np.zeros(trace.seconds)
    own, shared = trace.rates.get(model), trace.rates.get(EVERY)
    if own is not None:
        rates[: len(own)] += own
    if shared is not None:
        rates[: len(shared)] += shared * everybody[model] / sum(everybody.values())
    return rates
