"""Releases are answered in the cluster once their programs run; the programs only record calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from tests.waiting import until
from twin.cluster.kube_api import Object
from twin.cluster.release_marks import AGENT_PATH, FAILURE, FINALIZER, INSTALLATION, READY
from twin.releases.chart import Announce, ChartFailed, Release
from twin.releases.runner import ChartRunner


class Api:
    """The cluster for a ChartRunner: events come from the test, and patches are recorded."""

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
    """Programs that only record their calls; `run` raises `failing`."""

    def __init__(self, failing: Exception | None = None) -> None:
        self.said: list[str] = []
        self.failing = failing

    async def run(self, release: Release, ready: Announce) -> None:
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
    """Return the cluster after `act`, followed by a ChartRunner with the programs of `keda`."""

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
        # Its own answer returns as a change.
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
        """Stops only on command."""

        def __init__(self) -> None:
            super().__init__()
            self.told = asyncio.Event()

        async def run(self, release: Release, ready: Announce) -> None:
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
