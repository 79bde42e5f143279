"""Models that share the GPUs of a pod: how much longer each execution takes because of the others.

Processor sharing: executions on a GPU get equal parts of it, and its total work per second does not depend on their number.
So each of `n` executions takes `n` times as long as alone. This is the highest possible cost: if one execution leaves a GPU
partly idle, two of them slow down by less. Models on CPUs do not share: their threads divide a pod's CPUs.
Not modelled: the order in which a GPU takes kernels, memory bandwidth and caches, copies, clocks, and pods that share a GPU
by time slicing. docs/replay.md#models-on-one-gpu has the measured error.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from spec.prometheus.rule import SCALING_WINDOW_SECONDS
from twin.replay.prometheus import Sample, Target
from twin.replay.service import Service
from twin.replay.serving import Server

LONG_SECONDS = 1.0
"""From this duration on, a model's executions are simulated one by one, because one second holds only parts of one."""


@dataclass
class Execution:
    """`work`: the seconds of an idle GPU that it still needs. `begun`: its start, in seconds of the server's clock."""

    requests: int
    work: float
    begun: float
    came: tuple[float, ...]


@dataclass
class LongServer:
    """A model in a pod whose executions last for seconds, simulated one by one.

    Like Triton's, its counters include each execution when it ends.
    """

    service: Service
    slo_seconds: float
    timeout_seconds: float
    window_seconds: int = SCALING_WINDOW_SECONDS
    busy: float = 0.0
    target: Target = field(init=False)
    _clock: float = 0.0
    _waiting: deque[float] = field(default_factory=deque)
    _executing: list[Execution] = field(default_factory=list)
    _successes: float = 0.0
    _executions: float = 0.0
    _seconds: float = 0.0
    _rejected: float = 0.0

    def __post_init__(self) -> None:
        self.target = Target(self.window_seconds)

    @property
    def executing(self) -> float:
        """Return the number of running executions."""
        return len(self._executing)

    def second(self, arriving: float, stretch: float) -> tuple[float, float]:
        """Take a second's requests, in whole numbers; return the number of late answers and of rejected requests."""
        begins, ends = self._clock, self._clock + 1
        self._waiting.extend([begins] * round(arriving))
        rejected = self._expire(begins)
        late, busy, free = 0.0, 0.0, self.service.instances - len(self._executing)
        ongoing = [(execution, begins) for execution in self._executing]
        self._executing = []
        ongoing += [(execution, begins) for execution in (self._next(begins) for _ in range(free)) if execution is not None]
        while ongoing:
            execution, at = ongoing.pop()
            taken = execution.work * stretch
            if at + taken > ends:
                execution.work -= (ends - at) / stretch
                self._executing.append(execution)
                busy += ends - at
                continue
            busy += taken
            late += self._end(execution, at + taken)
            following = self._next(at + taken)
            if following is not None:
                ongoing.append((following, at + taken))
        self.busy, self._clock = busy, ends
        return late, rejected

    def scrape(self, at: float) -> None:
        """Record a Prometheus sample."""
        self.target.samples.append(
            Sample(at, self._successes, self._executions, self._seconds, len(self._waiting), self._rejected)
        )

    def _expire(self, now: float) -> float:
        expired = 0
        while self._waiting and now - self._waiting[0] > self.timeout_seconds:
            self._waiting.popleft()
            expired += 1
        self._rejected += expired
        return float(expired)

    def _next(self, now: float) -> Execution | None:
        size = min(len(self._waiting), int(self.service.batch))
        if size == 0:
            return None
        came = tuple(self._waiting.popleft() for _ in range(size))
        return Execution(size, self.service.seconds_of(size), now, came)

    def _end(self, execution: Execution, now: float) -> float:
        self._successes += execution.requests
        self._executions += 1
        self._seconds += execution.requests * (now - execution.begun)
        return float(sum(now - came > self.slo_seconds for came in execution.came))


AnyServer = Server | LongServer


def server(service: Service, slo_seconds: float, timeout_seconds: float, window_seconds: int) -> AnyServer:
    """Return a server of a model."""
    kind = LongServer if service.one >= LONG_SECONDS else Server
    return kind(service, slo_seconds, timeout_seconds, window_seconds)


def stretches(servers: Sequence[AnyServer], gpus: int) -> list[float]:
    """Return by what factor each model's executions are slowed in a second by other executions on the GPUs.

    For short executions, use the mean of the last second: one execution shares its GPU with the mean of the other instances.
    For long ones, use the running executions.
    """
    executing = sum(one.busy for one in servers if one.service.gpus)
    found = []
    for one in servers:
        if not one.service.gpus:
            found.append(1.0)
        elif isinstance(one, LongServer):
            own = max(0.0, one.executing - 1)
            found.append(1 + max(0.0, executing - one.busy + own) / gpus)
        else:
            found.append(1 + max(0.0, executing / gpus - one.busy / one.service.instances))
    return found
