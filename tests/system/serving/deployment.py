"""A Deployment's rolling update over real servers, with the endpoints that clients see meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tritonclient.grpc.aio as triton
from tritonclient.grpc import InferInput
from tritonclient.utils import InferenceServerException

from modelctl.loadgen import RequestFailed, Result, Schedule, Send, run
from tests.charts import rendering
from tests.system.serving.pods import START_SECONDS, Pod

DEADLINE_SECONDS = 60.0
LONGEST_SECONDS = 240.0
"""The longest duration of a change under load."""


class RolloutStuck(Exception):
    """A new pod does not become ready: the update stops, and the other pods are unchanged."""

    def __init__(self, pod: Pod) -> None:
        super().__init__(f"pod {pod.name} does not become ready")
        self.pod = pod


class Deployment:
    """Ready pods, and the order in which the rendered strategy replaces them.

    `propagation_seconds` is the time for which clients use a pod after its deletion (EndpointSlice, DNS). The rendered
    preStop hook has to be longer.
    """

    def __init__(self, pods: Sequence[Pod], overrides: Mapping[str, Any], propagation_seconds: float) -> None:
        rendered = rendering.deployment(overrides, environment="local")["spec"]["strategy"]["rollingUpdate"]
        self._surge, self._unavailable = int(rendered["maxSurge"]), int(rendered["maxUnavailable"])
        self._propagation = propagation_seconds
        self.pods = list(pods)
        self.endpoints = list(pods)
        """The pods that clients send to."""

    async def roll_out(self, make: Callable[[], Pod], seconds: float = START_SECONDS) -> None:
        """Replace every pod by a (started) pod from `make`, one at a time.

        Without surge the old pod stops completely first, because the new one needs its GPU. Raises RolloutStuck if a new pod
        is not ready within `seconds` or its container has exited.
        """
        assert self._surge + self._unavailable == 1, "the chart replaces pods one by one"
        for old in list(self.pods):
            if self._surge:
                await self._add(make(), seconds)
                await self._remove(old)
            else:
                await self._remove(old)
                await self._add(make(), seconds)

    async def _add(self, new: Pod, seconds: float) -> None:
        self.pods.append(new)
        with contextlib.suppress(AssertionError):
            await asyncio.to_thread(new.until, lambda: new.ready or new.restarts, "the new pod to be ready", seconds)
        if not new.ready:
            raise RolloutStuck(new)
        self.endpoints.append(new)

    async def _remove(self, old: Pod) -> None:
        ending = asyncio.wrap_future(old.delete())
        await asyncio.sleep(self._propagation)
        self.endpoints.remove(old)
        await ending
        self.pods.remove(old)


@contextlib.asynccontextmanager
async def round_robin(deployment: Deployment, model: str = "echo") -> AsyncIterator[Send]:
    """Return a `loadgen` sender that uses the endpoints in turn over one channel each, without retries.

    The tag of an answer is the version that gave it.
    """
    tensor = InferInput("IN", [1, 1], "FP32")
    tensor.set_data_from_numpy(np.ones((1, 1), np.float32))
    turns = itertools.count()
    channels: dict[str, triton.InferenceServerClient] = {}

    async def send(number: int) -> str:
        pod = deployment.endpoints[next(turns) % len(deployment.endpoints)]
        if pod.grpc not in channels:
            channels[pod.grpc] = triton.InferenceServerClient(pod.grpc, channel_args=[("grpc.enable_retries", 0)])
        try:
            answer = await channels[pod.grpc].infer(model, [tensor], client_timeout=DEADLINE_SECONDS)
        except InferenceServerException as error:
            raise RequestFailed(f"{pod.name}: {error}") from None
        return str(answer.get_response().model_version)

    try:
        yield send
    finally:
        for channel in channels.values():
            await channel.close()


async def under_load(send: Send, rate: float, change: Callable[[], Awaitable[None]]) -> Result:
    """Run a constant open-loop load from a second before the change to two seconds after it, and return all outcomes."""
    end = asyncio.Event()
    schedule = Schedule.constant(rate, 2 * LONGEST_SECONDS)
    load = asyncio.create_task(run(schedule, send, drain_seconds=DEADLINE_SECONDS + 10, end=end))
    try:
        async with asyncio.timeout(LONGEST_SECONDS):
            await asyncio.sleep(1)
            await change()
            await asyncio.sleep(2)
    finally:
        end.set()
        result = await load
    return result
