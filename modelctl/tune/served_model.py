"""The search's view of a model on a real Triton."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Self

from tritonclient.grpc import InferInput
from tritonclient.grpc.model_config_pb2 import ModelConfig

from modelctl.loadgen import Outcome, RequestFailed, Schedule, Send, run
from modelctl.loadgen.result import nearest_rank, rank
from modelctl.tune.candidate import Candidate
from modelctl.tune.errors import TuneError
from modelctl.tune.gpu_memory import GpuMemory, MemoryUse
from modelctl.tune.server import TuningServer
from modelctl.tune.subject import Probe
from modelctl.tune.workload import Kind, Workload, requests

WARM_UP_SECONDS = 0.5
LONE_REQUESTS = 20
LONE_GAP_SECONDS = 0.01
"""The pause between single requests.

Some requests arrive within a fraction of a millisecond after the last answer. Server 2.51's dynamic batcher misses about one
in a hundred of them, until it looks again after 500 ms (measured; not without dynamic batching). Independent clients hardly
ever do that; a loop of single requests always would.
"""

SETTLE_SECONDS = 60.0


class ServedModel:
    """The model of `server` under loads of `inputs` of a kind, judged by `slo_p95_ms` and `slo_p99_ms`.

    `configured` returns the complete config of a candidate. A context manager, because it holds connections.
    """

    def __init__(
        self,
        server: TuningServer,
        configured: Callable[[Candidate], ModelConfig],
        inputs: Sequence[InferInput],
        slo_p95_ms: float,
        slo_p99_ms: float | None = None,
        kind: Kind = requests,
        gpu_memory: GpuMemory | None = None,
    ) -> None:
        self._server, self._configured, self._gpu_memory = server, configured, gpu_memory
        self._slos = {95.0: slo_p95_ms} | ({99.0: slo_p99_ms} if slo_p99_ms is not None else {})
        self._runner = asyncio.Runner()
        self._opening: AbstractAsyncContextManager[Workload] = kind(
            server.address, server.model, inputs, max(5.0, max(self._slos.values()) / 100)
        )

    def __enter__(self) -> Self:
        self._workload = self._runner.run(self._opening.__aenter__())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._runner.run(self._opening.__aexit__(None, None, None))
        self._runner.close()

    def use(self, candidate: Candidate) -> None:
        self.load(self._configured(candidate))

    def load(self, config: ModelConfig) -> None:
        """Load exactly this config, and wait for one answer before any measurement."""
        self._server.load(config)
        self._runner.run(self._settle())
        if self._gpu_memory is not None:
            self._gpu_memory.loaded()

    def gpu_memory(self) -> MemoryUse | None:
        return None if self._gpu_memory is None else self._gpu_memory.use()

    def lone_p95_ms(self) -> float:
        return self._runner.run(self._lone())

    def probe(self, rate: float, seconds: float, seed: int) -> Probe:
        return self._runner.run(self._probe(rate, seconds, seed))

    async def _lone(self) -> float:
        latencies = []
        for number in range(LONE_REQUESTS):
            latencies.append(await self._one(number))
            await self._workload.end()  # a stream continues after its first response
            await asyncio.sleep(LONE_GAP_SECONDS)
        return nearest_rank(latencies, 95)

    async def _one(self, number: int) -> float:
        """Return the latency in ms of a request with no others in flight."""
        loop = asyncio.get_running_loop()
        start = loop.time()
        try:
            await self._workload.one(number)
        except RequestFailed as failure:
            raise TuneError(
                f"{self._server.address}: {self._server.model} fails a lone request with {failure.code}; its log says why"
            ) from None
        return (loop.time() - start) * 1000

    async def _probe(self, rate: float, seconds: float, seed: int) -> Probe:
        schedule, sender = self._workload.load(rate, WARM_UP_SECONDS + seconds, seed)
        async with _answered(sender) as send:
            result = await run(
                schedule, send, drain_seconds=max(self._slos.values()) / 1000, stop_when=breaks_slo(schedule, self._slos)
            )
        await self._workload.end()
        measured = result.after(WARM_UP_SECONDS)
        held = (
            bool(measured.outcomes)
            and not measured.stopped
            and all(measured.percentile_ms(percent) <= slo for percent, slo in self._slos.items())
        )
        if not held:
            await self._settle()
        return Probe(rate, seed, held, measured.summary())

    async def _settle(self) -> None:
        """Wait until the queue of an overload is empty, by sending a single request behind it."""
        loop = asyncio.get_running_loop()
        end = loop.time() + SETTLE_SECONDS
        while True:
            try:
                await self._workload.one(0)
                return
            except RequestFailed as failure:
                if loop.time() > end:
                    raise TuneError(
                        f"{self._server.address}: {self._server.model} answers nothing ({failure.code}) for "
                        f"{SETTLE_SECONDS:.0f} s after a load; its log says why"
                    ) from None
            await asyncio.sleep(0.1)


@asynccontextmanager
async def _answered(send: Send) -> AsyncIterator[Send]:
    """Yield a `send` whose requests finish even if their load is cancelled. At the end, wait for them.

    Some servers crash with SIGSEGV when hundreds of requests are cancelled: docs/facts/triton-server.md#cancelled-requests.
    """
    requests: list[asyncio.Future[str | None]] = []

    async def kept(number: int) -> str | None:
        requests.append(asyncio.ensure_future(send(number)))
        return await asyncio.shield(requests[-1])

    yield kept
    await asyncio.gather(*requests, return_exceptions=True)


def breaks_slo(schedule: Schedule, slos_ms: Mapping[float, float]) -> Callable[[Outcome], bool]:
    """Return a function that takes outcomes and returns True once an SLO can no longer be met.

    `slos_ms`: by percentile, like 95.
    """
    due = sum(moment >= WARM_UP_SECONDS for moment in schedule.due)
    left = {percent: due - rank(percent, due) for percent in slos_ms}

    def broken(outcome: Outcome) -> bool:
        if outcome.due >= WARM_UP_SECONDS:
            for percent, slo in slos_ms.items():
                left[percent] -= outcome.latency_ms > slo
        return min(left.values()) < 0

    return broken
