"""The load of a model: requests by themselves, streams of which the first response counts, or sequences."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial

from tritonclient.grpc import InferInput

from modelctl.loadgen import Pace, Schedule, Send, grpc_sender, sequence_sender, stream_sender
from modelctl.loadgen.sequences import Place, schedule_of


@dataclass(frozen=True)
class Workload:
    """`one` sends a request with nothing before it. `load` gives when requests are due, at a rate for so many seconds by a
    seed, and what sends them; `end` is to be awaited behind each.
    """

    one: Send
    load: Callable[[float, float, int], tuple[Schedule, Send]]
    end: Callable[[], Awaitable[None]]


Kind = Callable[[str, str, Sequence[InferInput], float], AbstractAsyncContextManager[Workload]]
"""Opens the workload of a model at an address (host:port), of these inputs, with a deadline in seconds."""


@asynccontextmanager
async def requests(address: str, model: str, inputs: Sequence[InferInput], deadline: float) -> AsyncIterator[Workload]:
    """Yield requests that come by themselves and have one response each."""
    async with grpc_sender([address], model, inputs, deadline_seconds=deadline) as send:
        yield _independent(send, _nothing)


@asynccontextmanager
async def streams(address: str, model: str, inputs: Sequence[InferInput], deadline: float) -> AsyncIterator[Workload]:
    """Yield requests that are answered by a stream; their latency is that of the first response."""
    async with stream_sender(address, model, inputs, deadline_seconds=deadline) as sender:
        yield _independent(sender.send, sender.end)


def sequences(pace: Pace) -> Kind:
    """Return the kind of workload whose requests come in sequences of that pace."""
    return partial(_sequences, pace)


@asynccontextmanager
async def _sequences(
    pace: Pace, address: str, model: str, inputs: Sequence[InferInput], deadline: float
) -> AsyncIterator[Workload]:
    async with sequence_sender(address, model, inputs, deadline_seconds=deadline) as sender:

        async def one(number: int) -> str | None:
            return await sender.of([Place(number, first=True, last=True)])(0)

        def load(rate: float, seconds: float, seed: int) -> tuple[Schedule, Send]:
            schedule, places = schedule_of(pace, rate, seconds, seed)
            return schedule, sender.of(places)

        yield Workload(one, load, sender.end)


def _independent(send: Send, end: Callable[[], Awaitable[None]]) -> Workload:
    def load(rate: float, seconds: float, seed: int) -> tuple[Schedule, Send]:
        return Schedule.poisson(rate, seconds, seed), send

    return Workload(send, load, end)


async def _nothing() -> None:
    return None
