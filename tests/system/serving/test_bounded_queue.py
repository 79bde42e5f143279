"""How long a request waits that nobody follows, in a bounded queue: docs/serving.md#known-limits-of-the-server."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from tests.system.serving import models
from tests.system.serving.client import OK, burst, sender
from tests.system.serving.models import Timing
from tests.system.serving.pods import Kubelet, Pod

STALL_SECONDS = 0.5
"""After which the batcher of server 2.51 looks at its queue by itself."""
TRIES = 20


async def waits(pod: Pod, gate: Path) -> list[float]:
    """Return for each try how long a request takes that comes while the only instance has another one."""
    found = []
    async with sender("grpc", pod) as send:
        for _ in range(TRIES):
            gate.unlink(missing_ok=True)
            models.reached_file(gate).unlink(missing_ok=True)
            first = asyncio.create_task(send())
            await asyncio.to_thread(pod.until, lambda: models.reached(gate), "the instance to have a request")
            began = time.monotonic()
            (second,) = await burst(pod, send, 1, instances=0)
            gate.touch()
            assert [(await first).code, (await second).code] == [OK, OK]
            found.append(time.monotonic() - began)
    return found


def test_a_request_that_nobody_follows_waits_half_a_second_in_a_bounded_queue_alone(
    kubelet: Kubelet, tmp_path: Path
) -> None:
    found = {}
    for queue in (0, 8):
        gate, repository = tmp_path / f"open-{queue}", tmp_path / f"repository-{queue}"
        models.write(repository, timing=Timing(queue=queue, gate=gate))
        pod = kubelet.pod({"echo": 1}, repository).start().until_ready()
        found[queue] = sorted(asyncio.run(waits(pod, gate)))
    # Not at each try, and a busy machine adds to a wait, so that neither is asked of all of them.
    assert found[0][TRIES // 2] < STALL_SECONDS <= found[8][TRIES * 3 // 4], found
