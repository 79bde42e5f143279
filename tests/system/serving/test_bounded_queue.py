"""The waiting time in a bounded queue of a request without a successor: docs/serving.md#known-limits-of-the-server."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path

from tests.system.serving import models
from tests.system.serving.client import OK, burst, sender
from tests.system.serving.models import Timing
from tests.system.serving.pods import Kubelet, Pod

STALL_SECONDS = 0.5
"""The interval after which the batcher of server 2.51 checks its queue by itself."""
TRIES = 20


async def waits(pod: Pod, gate: Path, instances: int) -> list[float]:
    """Return the duration, in each try, of a request that arrives while an instance executes another one."""
    found = []
    async with sender("grpc", pod) as send:
        for _ in range(TRIES):
            gate.unlink(missing_ok=True)
            models.reached_file(gate).unlink(missing_ok=True)
            first = asyncio.create_task(send())
            await asyncio.to_thread(pod.until, lambda: models.reached(gate), "an instance to have a request")
            began = time.monotonic()
            (second,) = await burst(pod, send, 1, instances=instances - 1)
            gate.touch()
            assert [(await first).code, (await second).code] == [OK, OK]
            found.append(time.monotonic() - began)
    return found


def test_a_request_that_nobody_follows_waits_half_a_second_in_a_bounded_queue_of_one_instance_alone(
    kubelet: Kubelet, tmp_path: Path
) -> None:
    found = {}
    timings = {
        "unbounded": Timing(),
        "bounded": Timing(queue=8),
        "with a delay": Timing(queue=8, batch=8, delay_us=1000),
        "two instances": Timing(queue=8, instances=2),
    }
    for number, (name, timing) in enumerate(timings.items()):
        gate, repository = tmp_path / f"open-{number}", tmp_path / f"repository-{number}"
        models.write(repository, timing=replace(timing, gate=gate))
        pod = kubelet.pod({"echo": 1}, repository).start().until_ready()
        found[name] = asyncio.run(waits(pod, gate, timing.instances))
    stalled = {name: sum(wait >= STALL_SECONDS for wait in waited) for name, waited in found.items()}
    # Whether a try stalls is a race, which a busy machine changes. A busy machine also adds to a wait.
    assert min(stalled["bounded"], stalled["with a delay"]) > 0, found
    assert max(stalled["unbounded"], stalled["two instances"]) < TRIES // 2, found
