"""Send requests of sequences, for which a server keeps state: in order, at a pace."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Protocol

from tritonclient.grpc import InferInput
from tritonclient.grpc.aio import InferenceServerClient
from tritonclient.utils import InferenceServerException

from modelctl.loadgen.grpc_sender import failure_of
from modelctl.loadgen.runner import RequestFailed, Send
from modelctl.loadgen.schedule import Schedule


@dataclass(frozen=True)
class Pace:
    """The sequences of a load: `requests` requests each, one every `gap_seconds`. On average, `rate x gap` of them
    are open."""

    requests: int
    gap_seconds: float


@dataclass(frozen=True)
class Place:
    """The sequence of a request, and whether the request begins or ends it."""

    sequence: int
    first: bool
    last: bool


def schedule_of(pace: Pace, rate: float, seconds: float, seed: int) -> tuple[Schedule, list[Place]]:
    """Return the schedule of a load of `rate` requests/s, and the place of each request.

    As many sequences are open at its beginning as later: sequences that began earlier start with a later request. One begins
    at a random moment in each interval of `requests / rate` seconds, so the number of open ones hardly varies.
    """
    source = random.Random(seed)  # noqa: S311  repeatable on purpose
    interval, lasts = pace.requests / rate, pace.requests * pace.gap_seconds
    due: list[tuple[float, int]] = []
    begin = -lasts
    for sequence in itertools.count():
        if begin >= seconds:
            break
        start = begin + source.random() * interval
        moments = (start + number * pace.gap_seconds for number in range(pace.requests))
        due += [(moment, sequence) for moment in moments if 0 <= moment < seconds]
        begin += interval
    due.sort()
    positions: dict[int, list[int]] = {}
    for position, (_, sequence) in enumerate(due):
        positions.setdefault(sequence, []).append(position)
    places = [
        Place(sequence, position == positions[sequence][0], position == positions[sequence][-1])
        for position, (_, sequence) in enumerate(due)
    ]
    return Schedule(tuple(moment for moment, _ in due), seconds), places


class SequenceSender(Protocol):
    """Makes the `Send` of one load."""

    def of(self, places: Sequence[Place]) -> Send:
        """Return the `Send` of a load whose requests have these places."""

    async def end(self) -> None:
        """End the sequences that a load left open, so the next load finds free slots."""


class _Sender:
    def __init__(self, client: InferenceServerClient, model: str, inputs: Sequence[InferInput], deadline: float) -> None:
        self._client, self._model, self._inputs, self._deadline = client, model, list(inputs), deadline
        self._ids = itertools.count(random.getrandbits(40) << 20 | 1)
        self._open: set[int] = set()

    def of(self, places: Sequence[Place]) -> Send:
        ids: dict[int, int] = {}
        turns: dict[int, asyncio.Lock] = {}

        async def send(number: int) -> None:
            place = places[number]
            # A lock is granted in the order of requests, so a sequence's requests are sent one after the other.
            async with turns.setdefault(place.sequence, asyncio.Lock()):
                if place.first:
                    ids[place.sequence] = next(self._ids)
                await self._ask(ids[place.sequence], first=place.first, last=place.last)

        return send

    async def end(self) -> None:
        for sequence in list(self._open):
            with suppress(RequestFailed):
                await self._ask(sequence, first=False, last=True)
        self._open.clear()

    async def _ask(self, sequence: int, *, first: bool, last: bool) -> None:
        self._open.add(sequence)
        try:
            await self._client.infer(
                self._model,
                self._inputs,
                sequence_id=sequence,
                sequence_start=first,
                sequence_end=last,
                client_timeout=self._deadline,
            )
        except InferenceServerException as error:
            raise RequestFailed(failure_of(error)) from None
        if last:
            self._open.discard(sequence)


@asynccontextmanager
async def sequence_sender(
    url: str, model: str, inputs: Sequence[InferInput], *, deadline_seconds: float
) -> AsyncIterator[SequenceSender]:
    """Yield a sender of sequences with these inputs to a model at `url`."""
    async with InferenceServerClient(url) as client:
        sender = _Sender(client, model, inputs, deadline_seconds)
        yield sender
        await sender.end()
