"""Clients of a rollout between real servers."""

from __future__ import annotations

import asyncio
import random
import time

import numpy as np
from tritonclient.grpc import InferInput
from tritonclient.grpc.aio import InferenceServerClient
from tritonclient.utils import InferenceServerException

from modelctl.loadgen import RequestFailed, Result, Schedule, run
from modelctl.rollout.fleet import Fleet
from tests.system.serving.rollout_releases import MODEL
from tests.system.serving.rollout_site import Site


class Clients:
    """Clients that request the fleet's published versions from every server in turn; the tag of an answer is
    `<version asked for>:<version that answered>:<whether it is right>`.
    """

    def __init__(self, site: Site, seed: int = 1, fleet: Fleet | None = None) -> None:
        self._fleet = fleet or site.fleet
        self._urls = site.servers.grpc_addresses()
        self._chance = random.Random(seed)  # noqa: S311 (repeatable, nothing secret)

    def version(self) -> int:
        told = self._fleet.served()[MODEL]
        if told.canary is not None and told.percent is not None and self._chance.random() * 100 < told.percent:
            return told.canary
        return told.stable

    async def load(self, rate: float, seconds: float, done: asyncio.Event | None = None) -> tuple[float, Result]:
        """Return the start time (monotonic clock) and the outcomes of the requests. Stops sending once `done` is set."""
        tensor = InferInput("IN", [1, 1], "FP32")
        tensor.set_data_from_numpy(np.ones((1, 1), np.float32))
        clients = [InferenceServerClient(url) for url in self._urls]

        async def send(number: int) -> str:
            version = self.version()
            try:
                answer = await clients[number % len(clients)].infer(
                    MODEL, [tensor], model_version=str(version), client_timeout=60
                )
            except InferenceServerException as error:
                raise RequestFailed(f"{error.status()}: {error.message()}") from None
            answered = answer.get_response().model_version
            return f"{version}:{answered}:{answer.as_numpy('OUT')[0, 0] == 1 + version}"

        began = time.monotonic()
        try:
            return began, await run(Schedule.poisson(rate, seconds, seed=1), send, drain_seconds=70, end=done)
        finally:
            for client in clients:
                await client.close()
