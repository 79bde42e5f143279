"""Real processes that the twin keeps running."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from tests.waiting import until
from twin.host import processes
from twin.host.home import TwinHome
from twin.host.processes import Service
from twin.releases.chart import ChartFailed
from twin.releases.programs import STOP_ORDER, Program, keep_running, stop

SECONDS = 60.0


@pytest.fixture
def home(tmp_path: Path) -> Iterator[TwinHome]:
    home = TwinHome(tmp_path / "home")
    home.path.mkdir()
    yield home
    processes.stop_all(home, seconds=5)


def program(home: TwinHome, name: str, script: str = "sleep 600", answering: bool = True) -> Program:
    env = {"PATH": os.environ["PATH"]}
    service = Service(name, ("/bin/sh", "-c", script), env, home.path, stop_order=STOP_ORDER)

    async def answers() -> bool:
        return answering

    return Program(service, answers)


def pid(home: TwinHome, name: str) -> int:
    record = processes.find(home, name)
    return record.pid if record else 0


async def beside(home: TwinHome, programs: list[Program], act: Callable[[], Awaitable[None]]) -> None:
    """Run `act` while the programs are kept running, once they are ready."""
    ready = asyncio.Event()

    async def announce() -> None:
        ready.set()

    keeping = asyncio.create_task(keep_running(home, programs, announce))
    try:
        await asyncio.wait_for(ready.wait(), SECONDS)
        await act()
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)


def test_a_program_that_ends_is_started_again_with_those_that_need_it(home: TwinHome) -> None:
    async def act() -> None:
        operator, adapter = pid(home, "operator"), pid(home, "adapter")
        os.kill(adapter, signal.SIGKILL)
        await until(lambda: pid(home, "adapter") not in (0, adapter), "the adapter to be started again")
        assert pid(home, "operator") == operator
        adapter = pid(home, "adapter")
        os.kill(operator, signal.SIGKILL)
        await until(lambda: pid(home, "operator") not in (0, operator), "the operator to be started again")
        await until(lambda: pid(home, "adapter") not in (0, adapter), "the adapter to be started after it")

    asyncio.run(beside(home, [program(home, "operator"), program(home, "adapter")], act))


def test_the_next_agent_takes_over_what_runs_and_replaces_what_should_be_another(home: TwinHome) -> None:
    seen: list[tuple[int, int]] = []

    async def note() -> None:
        seen.append((pid(home, "operator"), pid(home, "adapter")))

    async def turns() -> None:
        await beside(home, [program(home, "operator"), program(home, "adapter")], note)
        assert all(pid(home, name) for name in ("operator", "adapter"))
        await beside(home, [program(home, "operator"), program(home, "adapter", "sleep 601")], note)
        await beside(home, [program(home, "operator", "sleep 602"), program(home, "adapter", "sleep 601")], note)
        await stop(home, "operator")
        await stop(home, "never-started")
        assert pid(home, "operator") == 0

    asyncio.run(turns())
    [(operator, adapter), (same, other), (another, following)] = seen
    assert (same, other != adapter) == (operator, True)
    assert (another != operator, following != other) == (True, True), "the second has to find the new first one"


def test_a_program_that_does_not_start_says_the_end_of_its_log(home: TwinHome) -> None:
    async def announce() -> None:
        raise AssertionError("not ready")

    broken = program(home, "operator", "echo the flag is unknown; exit 2", answering=False)
    with pytest.raises(ChartFailed, match="operator ended while it was starting") as raised:
        asyncio.run(keep_running(home, [broken], announce))
    assert "the flag is unknown" in str(raised.value)
    assert processes.records(home) == []


def test_a_container_that_ends_while_it_starts_is_started_again_as_a_kubelet_does_it(home: TwinHome) -> None:
    """Its third start finds what the first two lacked."""
    script = f"echo x >> {home.path}/starts; [ $(wc -l < {home.path}/starts) -ge 3 ] || exit 1; sleep 600"
    service = program(home, "operator", script).service

    async def answers() -> bool:
        return len((home.path / "starts").read_text().splitlines()) == 3

    async def started() -> None:
        await stop(home, "operator")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(keep_running(home, [Program(service, answers, seconds=SECONDS, restarts=True)], started))
    broken = Program(program(home, "broken", "echo no credentials; exit 1").service, answers, seconds=2.5, restarts=True)
    (home.path / "starts").write_text("")
    with pytest.raises(ChartFailed, match=r"broken did not answer within 2\.5 s"):
        asyncio.run(keep_running(home, [broken], started))


def test_who_ends_a_program_that_is_being_started_finds_it(home: TwinHome, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that starts it continues while its release is removed."""
    begun, go_on, start = threading.Event(), threading.Event(), processes.start

    def slow_start(home: TwinHome, service: Service) -> processes.Record:
        begun.set()
        assert go_on.wait(SECONDS)
        return start(home, service)

    monkeypatch.setattr(processes, "start", slow_start)

    async def announce() -> None:
        raise AssertionError("not ready")

    async def remove_meanwhile() -> None:
        keeping = asyncio.create_task(keep_running(home, [program(home, "operator")], announce))
        await until(begun.is_set, "the start to begin")
        keeping.cancel()
        asyncio.get_running_loop().call_later(0.05, go_on.set)
        await asyncio.wait([keeping])
        await stop(home, "operator")

    asyncio.run(remove_meanwhile())
    assert processes.marked(home) == {}
