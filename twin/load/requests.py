"""A load of inference requests, over gRPC to the ready pods."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tritonclient.grpc import InferInput

from modelctl.loadgen import Outcome, Schedule, run
from modelctl.loadgen.requests import NoRequest, request_of
from modelctl.repository.load import Model, load
from modelctl.repository.problems import ValidationFailed
from spec.names import TRITON_GRPC_PORT, TRITON_NAMESPACE, TRITON_SERVICE
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


class RequestLoad:
    """Independent clients that ask one model, balanced over the pods of Triton's Service."""

    def __init__(self, api: KubeApi, schedule: Schedule, model: str, inputs: list[InferInput]) -> None:
        self.tally = Tally(schedule.due)
        self._api = api
        self._schedule = schedule
        self._balancer = Balancer(model, inputs)

    async def run(self) -> None:
        """Send everything, as `watch.Load` has it. Raises LoadRefused when no pod is ready."""
        ready = asyncio.Event()

        def tell(addresses: list[str]) -> None:
            self._balancer.follow([f"{address}:{TRITON_GRPC_PORT}" for address in addresses])
            if addresses:
                ready.set()

        following = asyncio.create_task(ClusterServices(self._api).follow(TRITON_NAMESPACE, TRITON_SERVICE, tell))
        try:
            await self._wait_for_a_pod(ready)
            result = await run(self._schedule, self._balancer.send, drain_seconds=_DRAIN_SECONDS, stop_when=self._count)
        finally:
            following.cancel()
            await asyncio.wait({following})
            await self._balancer.close()
        for outcome in result.outcomes:
            if outcome.done is None:
                self.tally.add(outcome)

    async def moment(self, at: float, scale: Scale | None) -> Moment:
        """Return the moment, as `watch.Load` has it."""
        return self.tally.moment(at, scale)

    @staticmethod
    async def _wait_for_a_pod(ready: asyncio.Event) -> None:
        try:
            await asyncio.wait_for(ready.wait(), _ENDPOINTS_SECONDS)
        except TimeoutError:
            raise LoadRefused("no pod of Triton is ready; `python3 -m twin status` says what each of them does") from None

    def _count(self, outcome: Outcome) -> bool:
        self.tally.add(outcome)
        return False
