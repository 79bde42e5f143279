"""Send requests that decoupled models answer with a stream of responses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from tritonclient.grpc import InferInput
from tritonclient.grpc.aio import InferenceServerClient
from tritonclient.utils import InferenceServerException

from modelctl.loadgen.grpc_sender import failure_of
from modelctl.loadgen.runner import RequestFailed


class StreamSender:
    """Sends requests to a decoupled model. Created by `stream_sender`."""

    def __init__(self, client: InferenceServerClient, model: str, inputs: Sequence[InferInput], deadline: float) -> None:
        self._client, self._model, self._inputs, self._deadline = client, model, list(inputs), deadline
        self._rest: set[asyncio.Task[None]] = set()

    async def send(self, number: int) -> None:
        """Send a request and return after its first response. Raises RequestFailed when none comes within the deadline.

        The remaining responses are read in the background, so the stream loads the server as usual.
        """
        responses = self._client.stream_infer(self._request(number))
        try:
            async with asyncio.timeout(self._deadline):
                _, error = await anext(responses, (None, None))
        except TimeoutError:
            responses.cancel()
            raise RequestFailed("DEADLINE_EXCEEDED") from None
        except InferenceServerException as failure:
            raise RequestFailed(failure_of(failure)) from None
        reading = asyncio.ensure_future(_read(responses))
        self._rest.add(reading)
        reading.add_done_callback(self._rest.discard)
        if error is not None:
            raise RequestFailed(failure_of(error))

    async def end(self) -> None:
        """Wait until all streams have ended."""
        await asyncio.gather(*self._rest)

    async def _request(self, number: int) -> AsyncIterator[dict[str, Any]]:
        yield {"model_name": self._model, "inputs": self._inputs, "request_id": str(number)}


@asynccontextmanager
async def stream_sender(
    url: str, model: str, inputs: Sequence[InferInput], *, deadline_seconds: float
) -> AsyncIterator[StreamSender]:
    """Yield a sender of requests with these inputs to a model at `url`."""
    async with InferenceServerClient(url) as client:
        sender = StreamSender(client, model, inputs, deadline_seconds)
        yield sender
        await sender.end()


async def _read(responses: Any) -> None:
    """Read a stream to its end. A failure after the first response does not affect that response's latency."""
    try:
        async for _ in responses:
            pass
    except InferenceServerException:
        return
