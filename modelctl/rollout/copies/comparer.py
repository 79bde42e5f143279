"""Send each copy to two releases at the same time, and compare the responses. The queue of copies is bounded."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from queue import SimpleQueue

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from modelctl.rollout.copies.answer import Difference, difference
from modelctl.rollout.copies.asked import AskedRelease, Copy, Refused, Unanswered
from modelctl.rollout.copies.counts import COPIES, FARTHEST, Result

LARGEST_COPY = 16 * 1024**2
"""The largest request in bytes; larger ones are not compared."""
_MOST_COPIES = 64
_MOST_BYTES = 4 * LARGEST_COPY
_AT_ONCE = 8
_MOST_TOLD = 20


class Comparer(Collector):
    """Compare the responses of `release` and `candidate` by each model's tolerance.

    Copies for models without a tolerance are refused. `say` logs a line, with distances and never with values.
    """

    def __init__(
        self,
        release: AskedRelease,
        candidate: AskedRelease,
        tolerances: Mapping[str, float],
        say: Callable[[str], None],
        *,
        most_copies: int = _MOST_COPIES,
    ) -> None:
        self._releases = (release, candidate)
        self._tolerances = dict(tolerances)
        self._say = say
        self._most_copies = most_copies
        self._queue: SimpleQueue[tuple[Copy, int] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._copies = self._bytes = 0
        self._counts: dict[str, Counter[Result]] = {model: Counter() for model in tolerances}
        self._farthest: dict[str, float] = {}
        self._told: Counter[str] = Counter()

    def compares(self, model: str) -> bool:
        """Return whether copies for the model are compared."""
        return model in self._tolerances

    def reserve(self, model: str, size: int) -> bool:
        """Reserve room for a copy of `size` bytes before it is read. Without room, count it as dropped."""
        with self._lock:
            if size > LARGEST_COPY or self._copies >= self._most_copies or self._bytes + size > _MOST_BYTES:
                self._counts[model][Result.DROPPED] += 1
                return False
            self._copies += 1
            self._bytes += size
            return True

    def lose(self, model: str, size: int) -> None:
        """Release the room of a copy that arrived incomplete or too large, and count it as dropped."""
        with self._lock:
            self._counts[model][Result.DROPPED] += 1
        self._free(size)

    def add(self, copy: Copy, reserved: int) -> None:
        """Queue a copy for which room is reserved; return at once."""
        self._queue.put((copy, reserved))

    @contextmanager
    def working(self) -> Iterator[None]:
        """Compare copies while the context is open. At its end, discard the copies in the queue."""
        with ThreadPoolExecutor(2 * _AT_ONCE) as pool:
            workers = [threading.Thread(target=self._work, args=(pool,), daemon=True) for _ in range(_AT_ONCE)]
            for worker in workers:
                worker.start()
            try:
                yield
            finally:
                while not self._queue.empty():
                    self._queue.get()
                for _ in workers:
                    self._queue.put(None)
                for worker in workers:
                    worker.join()

    def collect(self) -> Iterator[Metric]:
        """Yield the counts and the farthest distance by model."""
        copies = CounterMetricFamily(COPIES, "Copies of requests, by what became of them.", labels=["model", "result"])
        farthest = GaugeMetricFamily(
            FARTHEST, "Of the numbers that differ, the one farthest from the release's.", labels=["model"]
        )
        with self._lock:
            for model, counts in self._counts.items():
                for result in Result:
                    copies.add_metric([model, result], counts[result])
            for model, distance in self._farthest.items():
                farthest.add_metric([model], distance)
        yield copies
        yield farthest

    def _free(self, size: int) -> None:
        with self._lock:
            self._copies -= 1
            self._bytes -= size

    def _work(self, pool: ThreadPoolExecutor) -> None:
        while (found := self._queue.get()) is not None:
            copy, reserved = found
            try:
                self._count(copy.model, *self._compared(copy, pool))
            except Exception as error:  # an unexpected error with one copy must not stop the comparison of others
                self._count(copy.model, Result.UNANSWERED, Difference(f"not compared ({type(error).__name__})"))
            finally:
                self._free(reserved)

    def _compared(self, copy: Copy, pool: ThreadPoolExecutor) -> tuple[Result, Difference | None]:
        asked = [pool.submit(release.ask, copy) for release in self._releases]
        right, found = (answer.result() for answer in asked)
        if isinstance(right, Refused | Unanswered):
            return Result.UNANSWERED, Difference(f"the release gives no answer: {right.why}")
        if isinstance(found, Unanswered):
            return Result.UNANSWERED, Difference(f"the candidate gives no answer: {found.why}")
        if isinstance(found, Refused):
            return Result.DIFFERENT, Difference(f"the candidate refuses what the release answers: {found.why}")
        other = difference(right, found, self._tolerances[copy.model])
        return (Result.SAME, None) if other is None else (Result.DIFFERENT, other)

    def _count(self, model: str, result: Result, why: Difference | None) -> None:
        with self._lock:
            self._counts[model][result] += 1
            if why is None:
                return
            if why.distance is not None:
                self._farthest[model] = max(self._farthest.get(model, 0.0), why.distance)
            self._told[model] += 1
            told = self._told[model]
        if told <= _MOST_TOLD:
            last = "; what comes is counted, and not told any more" if told == _MOST_TOLD else ""
            self._say(f"{model}: {result}: {why.said}{last}")
