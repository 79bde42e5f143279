"""A rolling update of the Deployment under constant load replaces three real servers without a failed request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from modelctl.loadgen import Account, Result
from tests.system.serving import models
from tests.system.serving.deployment import Deployment, RolloutStuck, round_robin, under_load
from tests.system.serving.models import Timing
from tests.system.serving.pods import Kubelet, Pod

PROPAGATION_SECONDS = 0.5
"""Less than the preStop hook of local.yaml, as required."""
TIMING = Timing(seconds=0.02, load_seconds=0.5, queue=64)
RATE = 20.0


@pytest.fixture
def make_release(kubelet: Kubelet, tmp_path: Path) -> Callable[..., Callable[[], Pod]]:
    """Write a release with one version of `echo`, and return a function that starts its pods."""

    def release(
        version: int, overrides: Mapping[str, Any], prepare: Callable[[Path], None] | None = None
    ) -> Callable[[], Pod]:
        repository = tmp_path / f"release-{version}"
        models.write(repository, version=version, timing=TIMING)
        if prepare is not None:
            prepare(repository)
        return lambda: kubelet.pod({"echo": version}, repository, overrides).start()

    return release


async def asked_during(deployment: Deployment, change: Callable[[], Awaitable[None]]) -> Result:
    async with round_robin(deployment) as send:
        return await under_load(send, RATE, change)


@pytest.mark.parametrize("spare_gpu", [False, True], ids=["the-old-pod-goes-first", "surge"])
def test_a_rolling_update_fails_no_request(make_release: Callable[..., Callable[[], Pod]], spare_gpu: bool) -> None:
    overrides = {"rollout": {"spareGpu": spare_gpu}}
    first, second = make_release(1, overrides), make_release(2, overrides)
    pods = [first() for _ in range(3)]
    for pod in pods:
        pod.until_ready()
    deployment = Deployment(pods, overrides, PROPAGATION_SECONDS)

    result = asyncio.run(asked_during(deployment, lambda: deployment.roll_out(second)))

    sent = len(result.outcomes)
    assert result.account() == Account(sent, answered=sent, failed=0, shed=0), result.errors
    assert [result.outcomes[0].tag, result.outcomes[-1].tag] == ["1", "2"]
    assert all(pod.state["terminated"]["exitCode"] == 0 for pod in pods)
    assert len(deployment.endpoints) == 3
    assert not set(pods) & set(deployment.pods)


def test_a_broken_release_stops_at_its_first_pod_and_the_old_version_goes_on_serving(
    make_release: Callable[..., Callable[[], Pod]],
) -> None:
    def break_it(repository: Path) -> None:
        (repository / "echo" / "2" / "model.py").write_text("raise RuntimeError('weights.npz has the wrong shape')\n")

    first, broken = make_release(1, {}), make_release(2, {}, break_it)
    pods = [first() for _ in range(3)]
    for pod in pods:
        pod.until_ready()
    deployment = Deployment(pods, {}, PROPAGATION_SECONDS)

    async def change() -> None:
        with pytest.raises(RolloutStuck):
            await deployment.roll_out(broken)
        assert deployment.endpoints == pods[1:], "two pods of the old release serve"
        # As `pulumi up` with the older release: the Deployment first replaces the pods that are not ready.
        stuck = [pod for pod in deployment.pods if pod not in pods]
        for pod in stuck:
            await asyncio.wrap_future(pod.delete())
            deployment.pods.remove(pod)
        again = first()
        deployment.pods.append(again)
        await asyncio.to_thread(again.until_ready)
        deployment.endpoints.append(again)

    result = asyncio.run(asked_during(deployment, change))

    sent = len(result.outcomes)
    assert result.account() == Account(sent, answered=sent, failed=0, shed=0), result.errors
    assert result.tags == {"1": sent}
    assert len(deployment.endpoints) == 3
