"""A pod that crashes, and a failed load next to a version that serves: the results of the rendered probes."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from pathlib import Path

import httpx
import numpy as np
import pytest

from examples.grpc_client import BalancedClient
from examples.retries import RetryPolicy
from tests.system.serving import models
from tests.system.serving.models import Timing
from tests.system.serving.pods import Kubelet, Pod
from tests.system.serving.test_bad_input import answer
from tests.system.serving.test_examples_grpc import until_connected_to_all
from twin.pods.pod_spec import port_number
from twin.pods.pod_volumes import SHARED_MEMORY
from twin.pods.probes import Probe, ask

ONES = {"IN": np.ones((1, 1), np.float32)}


def test_a_pod_that_is_killed_under_load_comes_back_and_no_call_fails(kubelet: Kubelet, repository: Path) -> None:
    models.write(repository, timing=Timing(seconds=0.05))
    dying, other = (kubelet.pod({"echo": 1}, repository).start() for _ in range(2))
    dying.until_ready()
    other.until_ready()

    async def scenario() -> list[int]:
        attempts: list[int] = []
        target = f"ipv4:{dying.grpc},{other.grpc}"
        async with BalancedClient(target, policy=RetryPolicy(60, attempts=10)) as client:

            async def calls() -> None:
                for _ in range(10):
                    attempts.append((await client.infer("echo", ONES)).attempts)

            await until_connected_to_all(client, [dying, other])
            load = asyncio.gather(*(calls() for _ in range(8)))
            while len(attempts) < 16:
                await asyncio.sleep(0.01)
            os.kill(dying.pid, signal.SIGKILL)
            await load
        return attempts

    attempts = asyncio.run(scenario())

    assert len(attempts) == 80, "every call was answered"
    assert max(attempts) > 1, "some of them by the other pod"
    dying.until(lambda: dying.restarts == 1 and dying.ready, "the killed pod to be ready again")
    assert dying.last_state["terminated"]["exitCode"] == 128 + 9
    assert answer(dying) == 2.0
    assert len(list(Path(SHARED_MEMORY).glob(f"serving-{dying.uid}-*"))) == len(
        list(Path(SHARED_MEMORY).glob(f"serving-{other.uid}-*"))
    ), "the killed server's shared memory is gone"


@pytest.fixture
def in_place(kubelet: Kubelet, repository: Path) -> Pod:
    """Return a pod that loads versions while it serves, as in-place rollouts do; the model's version 2 is broken."""
    models.write(repository)
    values = {"rollout": {"mode": "in-place"}, "modelRepository": {"s3": {"prefix": "live"}}}
    pod = kubelet.pod({"echo": 1}, repository, values).start().until_ready()
    models.write(repository, version=2)
    (repository / "echo" / "2" / "model.py").write_text("raise RuntimeError('no weights')\n")
    return pod


def test_after_a_failed_load_the_server_is_not_ready_for_good_but_the_pod_is(in_place: Pod, repository: Path) -> None:
    """The server's own readiness stays at 400, whatever it loads afterwards. The chart checks each model.

    See docs/facts/triton-server.md#failed-load.
    """
    key = {"x-admin-key": in_place.admin_key}

    def status(path: str, method: str = "GET") -> int:
        return httpx.request(method, f"{in_place.http}{path}", headers=key, timeout=60, trust_env=False).status_code

    def probe(kind: str) -> bool:
        parsed = Probe.parse(kind, in_place.container[f"{kind}Probe"])
        assert parsed is not None
        return asyncio.run(ask(parsed, in_place.address, lambda name: port_number(name, [in_place.container])))[0]

    assert status("/v2/health/ready") == 200
    assert status("/v2/repository/models/echo/load", "POST") == 400

    shutil.rmtree(repository / "echo" / "2")
    assert status("/v2/repository/models/echo/load", "POST") == 200
    assert status("/v2/health/ready") == 400, "it sticks, whatever is loaded afterwards"
    assert (probe("readiness"), probe("liveness")) == (True, True)
    assert answer(in_place) == 2.0, "version 1 goes on serving"
    refused = [message for message in in_place.messages("Unhealthy") if "statuscode" in message]  # not: slow to answer
    assert not [message for message in refused if not message.startswith("Startup")]

    os.kill(in_place.pid, signal.SIGKILL)
    in_place.until(lambda: in_place.restarts == 1 and in_place.ready, "the pod to be ready again")
    assert status("/v2/health/ready") == 200, "a restart clears it"
