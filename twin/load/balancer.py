"""Balance requests over pods that come and go, each to the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from tritonclient.grpc import InferInput
from tritonclient.grpc.aio import InferenceServerClient
from tritonclient.utils import InferenceServerException

from modelctl.loadgen import RequestFailed
from modelctl.loadgen.grpc_sender import failure_code

NOBODY = "UNAVAILABLE: no pod is ready"
_DEADLINE_SECONDS = 30.0


@dataclass
class _Pod:
    client: InferenceServerClient
    in_flight: int = 0
    left: bool = False


class Balancer:
    """The requests of a load over gRPC. Use it inside a running event loop, and `close` it.

    Requests are not retried: a request that a terminating pod loses counts as failed.
    """

    def __init__(self, model: str, inputs: Sequence[InferInput]) -> None:
        self._model = model
        self._inputs = list(inputs)
        self._pods: dict[str, _Pod] = {}
        self._turn = 0
        self._closing: set[asyncio.Task[None]] = set()

    def follow(self, addresses: Sequence[str]) -> None:
        """Send new requests only to these addresses (host:port) from now on. Running requests to other pods continue."""
        for gone in self._pods.keys() - set(addresses):
            pod = self._pods.pop(gone)
            pod.left = True
            self._close_when_idle(pod)
        for address in addresses:
            if address not in self._pods:
                self._pods[address] = _Pod(InferenceServerClient(address))

    async def send(self, number: int) -> str:
        """Send a request to the next pod and return its address, as a `loadgen.Send`. Raises RequestFailed."""
        if not self._pods:
            raise RequestFailed(NOBODY)
        self._turn += 1
        address = sorted(self._pods)[self._turn % len(self._pods)]
        pod = self._pods[address]
        pod.in_flight += 1
        try:
            await pod.client.infer(self._model, self._inputs, client_timeout=_DEADLINE_SECONDS)
        except InferenceServerException as error:
            raise RequestFailed(f"{failure_code(error)}: {error.message()}") from None
        finally:
            pod.in_flight -= 1
            self._close_when_idle(pod)
        return address

    async def close(self) -> None:
        """Close every connection."""
        self.follow([])
        await asyncio.gather(*self._closing)

    def _close_when_idle(self, pod: _Pod) -> None:
        if pod.left and pod.in_flight == 0:
            task = asyncio.ensure_future(pod.client.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
