"""Requests for a model on several fleets: their order and outcome. On a twin: tests/system/e2e/test_fleets.py."""

import asyncio
import threading
from typing import Any

import pytest

from modelctl.loadgen import Schedule
from tests.modelctl.servers import serving
from tests.twin.load.test_balancer import VALUES, Pod
from twin.host import processes
from twin.load.requests import RequestLoad, turns


@pytest.mark.parametrize(
    ("parts", "whose"),
    [
        ({"triton": 1}, "triton"),
        ({"a": 1, "b": 1}, "a b"),
        ({"a": 3, "b": 1}, "a a b a"),
        ({"a": 2, "b": 4}, "b a b b a b"),
    ],
)
def test_each_fleet_has_its_part_of_the_turns(parts: dict[str, int], whose: str) -> None:
    assert turns(parts) == whose.split()


class _OfOnePod(RequestLoad):
    """A load whose only pod is known, without an API server to follow."""

    address = ""

    async def _follow(self, service: str, ready: asyncio.Event) -> None:
        self._balancers[service].follow([self.address])
        ready.set()


def test_a_load_that_is_ended_from_another_thread_waits_for_its_answers_and_knows_the_end_of_each() -> None:
    api: Any = None
    pod, sent = Pod(), _OfOnePod(api, Schedule.poisson(100, 600, 1), "m", [VALUES], {"triton": 1})

    async def run() -> None:
        async with serving(pod) as sent.address:
            await sent.run()

    running = threading.Thread(target=asyncio.run, args=(run(),), daemon=True)
    running.start()
    processes.wait_until(lambda: len(sent.tally.answered) >= 20, "answers", 60)
    sent.end()
    running.join(timeout=60)
    assert not running.is_alive()
    assert len(sent.outcomes) == pod.asked >= 20
    assert all(outcome.ok for outcome in sent.outcomes)
