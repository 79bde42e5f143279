"""A load of inference requests, over gRPC to the ready pods."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from tritonclient.grpc import InferInput

from modelctl.loadgen import Outcome, Schedule, run
from modelctl.loadgen.requests import NoRequest, request_of
from modelctl.repository.load import load
from modelctl.repository.model import Model
from modelctl.repository.problems import ValidationFailed
from spec.names import TRITON_GRPC_PORT, TRITON_NAMESPACE
from twin.cluster.kube_api import KubeApi
from twin.cluster.services import ClusterServices
from twin.load.balancer import Balancer
from twin.load.record import Moment, Tally
from twin.load.refused import LoadRefused
from twin.load.scaling import Scale

_DRAIN_SECONDS = 30.0
_ENDPOINTS_SECONDS = 10.0


def model_of(models: Path, name: str) -> Model:
    """Return a model of the repository that the twin has released. Raises LoadRefused."""
    try:
        found = {model.name: model for model in load(models)}
    except ValidationFailed as failure:
        raise LoadRefused(f"the models in {models} cannot be read: {failure}") from None
    if name not in found:
        raise LoadRefused(f"there is no model {name!r} in the release; it has {', '.join(found)}")
    return found[name]


def inputs_of(model: Model) -> list[InferInput]:
    """Return one request of a batch of one. Raises LoadRefused."""
    try:
        return request_of(model, seed=1)
    except NoRequest as error:
        raise LoadRefused(str(error)) from None


def turns(parts: Mapping[str, int]) -> list[str]:
    """Return the cycle of turns: each name as often as its share, spread evenly."""
    return [name for _, name in sorted(((turn + 0.5) / part, name) for name, part in parts.items() for turn in range(part))]


class RequestLoad:
    """Independent clients of one model, balanced over the pods of the fleets that serve it.

    `parts`: by Service of a fleet, its share of the requests, like the gateway's route. `outcomes`: for every request that
    was due, once `run` has returned.
    """

    def __init__(
        self, api: KubeApi, schedule: Schedule, model: str, inputs: list[InferInput], parts: Mapping[str, int]
    ) -> None:
        self.tally = Tally(schedule.due)
        self.outcomes: tuple[Outcome, ...] = ()
        self._api = api
        self._schedule = schedule
        self._turns = turns(parts)
        self._balancers = {service: Balancer(model, inputs) for service in parts}
        self._end = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def run(self) -> None:
        """Send everything, for `watch.Load`. Raises LoadRefused if a fleet has no ready pod."""
        self._loop = asyncio.get_running_loop()
        ready = {service: asyncio.Event() for service in self._balancers}
        following = [asyncio.create_task(self._follow(service, ready[service])) for service in ready]
        try:
            await self._wait_for_pods(ready)
            result = await run(
                self._schedule, self._send, drain_seconds=_DRAIN_SECONDS, end=self._end, stop_when=self._count
            )
        finally:
            for task in following:
                task.cancel()
            await asyncio.wait(following)
            for balancer in self._balancers.values():
                await balancer.close()
        self.outcomes = result.outcomes
        for outcome in result.outcomes:
            if outcome.done is None:
                self.tally.add(outcome)

    def end(self) -> None:
        """End a running load before its schedule, from any thread; running requests continue."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._end.set)

    async def moment(self, at: float, scale: Scale | None) -> Moment:
        """Return the moment, for `watch.Load`."""
        return self.tally.moment(at, scale)

    async def _send(self, number: int) -> str:
        return await self._balancers[self._turns[number % len(self._turns)]].send(number)

    async def _follow(self, service: str, ready: asyncio.Event) -> None:
        def tell(addresses: list[str]) -> None:
            self._balancers[service].follow([f"{address}:{TRITON_GRPC_PORT}" for address in addresses])
            if addresses:
                ready.set()

        await ClusterServices(self._api).follow(TRITON_NAMESPACE, service, tell)

    @staticmethod
    async def _wait_for_pods(ready: Mapping[str, asyncio.Event]) -> None:
        try:
            await asyncio.wait_for(asyncio.gather(*(event.wait() for event in ready.values())), _ENDPOINTS_SECONDS)
        except TimeoutError:
            without = ", ".join(service for service, event in ready.items() if not event.is_set())
            raise LoadRefused(
                f"no pod of {without} is ready; `python3 -m twin status` says what each of them does"
            ) from None

    def _count(self, outcome: Outcome) -> bool:
        self.tally.add(outcome)
        return False
