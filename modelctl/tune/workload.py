"""The load of a model: independent requests, streams whose first response counts, or sequences."""

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
    """The functions that load a model.

    `one` sends a single request outside a load. `load` takes a rate, a duration in seconds and a seed, and returns the
    schedule and the function that sends its requests. Await `end` after each.
    """

    one: Send
    load: Callable[[float, float, int], tuple[Schedule, Send]]
    end: Callable[[], Awaitable[None]]


Kind = Callable[[str, str, Sequence[InferInput], float], AbstractAsyncContextManager[Workload]]
"""Opens a workload for a model at an address (host:port), with inputs and a deadline in seconds."""


@asynccontextmanager
async def requests(address: str, model: str, inputs: Sequence[InferInput], deadline: float) -> AsyncIterator[Workload]:
    """Yield a workload of independent requests with one response each."""
    async with grpc_sender([address], model, inputs, deadline_seconds=deadline) as send:
        yield _independent(send, _nothing)


@asynccontextmanager
async def streams(address: str, model: str, inputs: Sequence[InferInput], deadline: float) -> AsyncIterator[Workload]:
    """Yield a workload of requests that are answered by a stream. The latency is the time to the first response."""
    async with stream_sender(address, model, inputs, deadline_seconds=deadline) as sender:
        yield _independent(sender.send, sender.end)


def sequences(pace: Pace) -> Kind:
    """Return the kind of workload whose requests come in sequences at that pace."""
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
