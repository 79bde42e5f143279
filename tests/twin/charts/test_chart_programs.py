"""The programs that stand for charts: real processes kept running, and releases answered in the cluster."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from twin.charts.chart_programs import STOP_ORDER, Announce, ChartFailed, ChartRunner, Installed, Program, keep_running, stop
from twin.cluster.kube_api import Object
from twin.cluster.release_marks import AGENT_PATH, FAILURE, FINALIZER, INSTALLATION, READY
from twin.host import processes
from twin.host.home import TwinHome
from twin.host.processes import Service

SECONDS = 20.0


@pytest.fixture
def home(tmp_path: Path) -> Iterator[TwinHome]:
    home = TwinHome(tmp_path / "home")
    home.path.mkdir()
    yield home
    processes.stop_all(home, seconds=5)


async def until(condition: Callable[[], Any], what: str) -> None:
    try:
        async with asyncio.timeout(SECONDS):
            while not condition():
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"waited {SECONDS:g} s in vain for {what}") from None


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
    """Does `act` while the programs are kept running, once they are ready."""
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


def test_who_ends_a_program_that_is_being_started_finds_it(home: TwinHome, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that starts it goes on when its release is removed meanwhile."""
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


class Api:
    """The cluster as a ChartRunner sees it: events come from the test, patches are kept."""

    def __init__(self) -> None:
        self.events: asyncio.Queue[tuple[str, Object]] = asyncio.Queue()
        self.patches: list[tuple[str, Object]] = []
        self.applied: dict[str, Object] = {}

    async def watch(self, path: str, **params: str) -> AsyncIterator[tuple[str, Object]]:
        assert (path, params) == ("/api/v1/configmaps", {"labelSelector": "twin.triton-eks/release=true"})
        while True:
            yield await self.events.get()

    async def apply(self, path: str, body: Object) -> None:
        self.applied[path] = body

    async def patch(self, path: str, body: Object, kind: str) -> None:
        assert kind == "merge"
        self.patches.append((path, body["metadata"]))


class Recorded:
    """Programs that only say what was asked of them; `failing` is what `run` raises."""

    def __init__(self, failing: Exception | None = None) -> None:
        self.said: list[str] = []
        self.failing = failing

    async def run(self, release: Installed, ready: Announce) -> None:
        self.said.append(f"run {release.namespace}/{release.name} {release.version} {dict(release.values)}")
        if self.failing is not None:
            raise self.failing
        await ready()
        try:
            await asyncio.Event().wait()
        finally:
            self.said.append("cancelled")

    async def remove(self) -> None:
        self.said.append("remove")


def config_map(chart: str, installation: str, *, deleted: bool = False) -> Object:
    metadata: Object = {
        "name": f"twin-release-{chart}",
        "namespace": "keda",
        "uid": "u1",
        "annotations": {INSTALLATION: installation},
        "finalizers": ["somebody/else", FINALIZER],
    }
    if deleted:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {"metadata": metadata, "data": {"chart": chart, "version": "2.20.2", "values.yaml": "a: 1\n"}}


def follow(act: Callable[[Api], Awaitable[None]], programs: Recorded) -> Api:
    """The cluster after `act`, which a ChartRunner with the programs of `keda` follows."""

    async def turns() -> Api:
        api = Api()
        runner = ChartRunner(api, {"keda": programs})  # type: ignore[arg-type]
        running = asyncio.create_task(runner.run())
        try:
            await act(api)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        return api

    return asyncio.run(turns())


PATH = "/api/v1/namespaces/keda/configmaps/twin-release-keda"
RUN = "run keda/keda 2.20.2 {'a': 1}"


def annotated(**texts: str) -> tuple[str, Object]:
    annotations = {READY: texts.get("ready"), FAILURE: texts.get("failure")}
    return PATH, {"uid": "u1", "annotations": annotations}


def test_each_installation_is_run_once_and_said_to_be_ready() -> None:
    programs = Recorded()

    async def act(api: Api) -> None:
        await api.events.put(("SYNC", {"items": [config_map("keda", "one"), config_map("unknown", "x")]}))
        await until(lambda: len(api.patches) == 1, "the first answer")
        # Its own answer comes back as a change.
        await api.events.put(("MODIFIED", config_map("keda", "one")))
        await api.events.put(("MODIFIED", config_map("keda", "two")))
        await until(lambda: len(api.patches) == 2, "the second answer")

    api = follow(act, programs)
    assert api.patches == [annotated(ready="one"), annotated(ready="two")]
    assert programs.said == [RUN, "cancelled", RUN, "cancelled"]
    assert api.applied[AGENT_PATH]["data"] == {"charts": "keda"}


def test_a_failure_is_said_and_tried_again() -> None:
    programs = Recorded(failing=ChartFailed("it is not built"))

    async def act(api: Api) -> None:
        await api.events.put(("SYNC", {"items": [config_map("keda", "one")]}))
        await until(lambda: len(programs.said) == 2, "the second try")

    api = follow(act, programs)
    assert api.patches[0] == annotated(failure="one it is not built")


def test_a_fault_of_the_twin_is_no_answer() -> None:
    programs = Recorded(failing=KeyError("x"))

    async def act(api: Api) -> None:
        await api.events.put(("SYNC", {"items": [config_map("keda", "one")]}))
        await until(lambda: len(programs.said) == 2, "the second try")

    assert follow(act, programs).patches == []


def test_a_deleted_release_goes_when_its_programs_are_gone() -> None:
    programs = Recorded()

    async def act(api: Api) -> None:
        await api.events.put(("SYNC", {"items": [config_map("keda", "one")]}))
        await until(lambda: api.patches, "the answer")
        for _ in range(2):
            await api.events.put(("MODIFIED", config_map("keda", "one", deleted=True)))
        await until(lambda: len(api.patches) == 2, "the finalizer to be taken away")
        await api.events.put(("DELETED", config_map("keda", "one", deleted=True)))
        await api.events.put(("ADDED", config_map("keda", "two")))
        await until(lambda: len(api.patches) == 3, "the next installation")

    api = follow(act, programs)
    assert api.patches[1] == (PATH, {"uid": "u1", "finalizers": ["somebody/else"]})
    assert programs.said == [RUN, "cancelled", "remove", RUN, "cancelled"]


@pytest.mark.parametrize("pausing", [True, False])
def test_an_installation_waits_for_the_one_that_lets_go_though_others_came_between(pausing: bool) -> None:
    class Slow(Recorded):
        """Lets go when it is told to."""

        def __init__(self) -> None:
            super().__init__()
            self.told = asyncio.Event()

        async def run(self, release: Installed, ready: Announce) -> None:
            try:
                await super().run(release, ready)
            finally:
                await self.told.wait()
                self.said.append("let go")

    programs = Slow()

    async def act(api: Api) -> None:
        await api.events.put(("SYNC", {"items": [config_map("keda", "one")]}))
        await until(lambda: len(api.patches) == 1, "the first answer")
        for installation in ("two", "three", "four"):
            await api.events.put(("MODIFIED", config_map("keda", installation)))
            if pausing:
                await until(api.events.empty, "the installation to be read")
                await asyncio.sleep(0)
        await until(api.events.empty, "the installations to be read")
        programs.told.set()
        await until(lambda: len(api.patches) == 2, "the last answer")

    api = follow(act, programs)
    assert api.patches == [annotated(ready="one"), annotated(ready="four")]
    assert programs.said == [RUN, "cancelled", "let go", RUN, "cancelled", "let go"]


def test_programs_whose_release_went_while_no_agent_watched_are_removed() -> None:
    programs = Recorded()

    async def act(api: Api) -> None:
        await api.events.put(("SYNC", {"items": []}))
        await until(lambda: programs.said, "the removal")
        await api.events.put(("SYNC", {"items": []}))
        await until(api.events.empty, "the second list to be read")

    api = follow(act, programs)
    assert (programs.said, api.patches) == (["remove"], [])
