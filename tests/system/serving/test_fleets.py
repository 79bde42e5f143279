"""A model moves between fleets of real servers under load, by the steps of docs/fleets.md, without a failed request."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from modelctl.loadgen import Account, Send
from tests.charts import rendering
from tests.system.serving import models
from tests.system.serving.deployment import Deployment, round_robin, under_load
from tests.system.serving.models import Timing
from tests.system.serving.pods import Kubelet, Pod

PROPAGATION_SECONDS = 0.5
RATE = 30.0
MOVING, LEFT, RIGHT = "moving", "left", "right"


def fleet(kubelet: Kubelet, repository: Path, *served: str) -> Callable[[], Pod]:
    """Return the command line of a fleet's pod with these models, from a release with all models."""
    overrides = {"release": {"part": True}}
    return lambda: kubelet.pod(dict.fromkeys(served, 1), repository, overrides).start()


@contextlib.asynccontextmanager
async def asking(routes: dict[str, Deployment]) -> AsyncIterator[Send]:
    """Send requests for each model in turn to the pods of its route's fleet, without retries."""
    names, fleets = sorted(routes), set(routes.values())
    async with contextlib.AsyncExitStack() as stack:
        senders = {
            (model, fleet): await stack.enter_async_context(round_robin(fleet, model)) for model in names for fleet in fleets
        }

        async def send(number: int) -> str:
            model = names[number % len(names)]
            await senders[model, routes[model]](number)
            return model

        yield send


def test_a_model_moves_to_another_fleet_and_no_request_fails(kubelet: Kubelet, tmp_path: Path) -> None:
    repository = tmp_path / "release"
    for name in (MOVING, LEFT, RIGHT):
        models.write(repository, name=name, timing=Timing(seconds=0.01, queue=64))
    first = [[fleet(kubelet, repository, *served)() for _ in range(2)] for served in ((MOVING, LEFT), (RIGHT,))]
    for pod in (pod for pods in first for pod in pods):
        pod.until_ready()
    old, new = (Deployment(pods, {"release": {"part": True}}, PROPAGATION_SECONDS) for pods in first)
    assert rendering.flag(old.pods[0].container, "--model-control-mode") == "explicit"
    routes = {MOVING: old, LEFT: old, RIGHT: new}

    async def move() -> None:
        # 1: the new fleet has the model, then the route leads there; the old fleet still has it.
        await new.roll_out(fleet(kubelet, repository, MOVING, RIGHT))
        routes[MOVING] = new
        await asyncio.sleep(1)
        # 2: the old fleet loses it.
        await old.roll_out(fleet(kubelet, repository, LEFT))

    async def moved_under_load() -> None:
        async with asking(routes) as send:
            result = await under_load(send, RATE, move)
        sent = len(result.outcomes)
        assert result.account() == Account(sent, answered=sent, failed=0, shed=0), result.errors
        assert set(result.tags) == {MOVING, LEFT, RIGHT}
        assert min(result.tags.values()) > 50, "every model was asked all the time"

    asyncio.run(moved_under_load())
    assert not {pod for pods in first for pod in pods} & {*old.pods, *new.pods}, "every pod was replaced"
