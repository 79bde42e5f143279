"""The real programs that stand for a chart: the agent starts them when the chart is installed and ends them with it.

What a `helm.v3.Release` leaves is a ConfigMap (twin/plugins/releases.py). Each installation has a mark of its own there, and
the agent answers beside it, in annotations, that what stands for the chart is ready, or why it is not. A finalizer keeps the
ConfigMap until its programs are gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ParamSpec, Protocol, TypeVar

import httpx
import yaml

from twin.cluster.kube_api import KubeApi, Object
from twin.cluster.kube_errors import ApiError, KubeError
from twin.cluster.release_marks import AGENT_PATH, CHARTS, FAILURE, FINALIZER, INSTALLATION, LABEL, READY
from twin.host import processes
from twin.host.home import TwinHome
from twin.host.processes import Record, Service
from twin.host.tools import ToolError

log = logging.getLogger("twin.charts")
STOP_ORDER = 80
"""After the pods, before the control plane."""
_START_SECONDS = 60.0
_POLL_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 30.0

P = ParamSpec("P")
T = TypeVar("T")
Announce = Callable[[], Awaitable[None]]


class ChartFailed(Exception):
    """What stands for a chart cannot run; the text says why, and where to look."""


@dataclass(frozen=True)
class Installed:
    """A release of a chart as it was last installed.

    `values` are those that the program gave, without the chart's own defaults. `installation` is another one each time.
    """

    name: str
    namespace: str
    chart: str
    version: str
    values: Mapping[str, Any]
    installation: str


class ChartPrograms(Protocol):
    """The real programs that stand for one chart."""

    async def run(self, release: Installed, ready: Announce) -> None:
        """Makes everything as `release` says, calls `ready` once all of it answers, and keeps it so until cancelled.

        Cancelling leaves the programs running: the next agent, or the next installation's `run`, takes them over. Raises
        ChartFailed or ToolError for what a person must mend, and KubeError for what may pass; it is called
        again after any of them.
        """

    async def remove(self) -> None:
        """Ends the programs and removes what they have in the cluster; with nothing there, nothing happens."""


@dataclass(frozen=True)
class Program:
    """A process to keep running. `answers` says whether it is up; OSError and httpx.HTTPError mean: not yet."""

    service: Service
    answers: Callable[[], Awaitable[bool]]


async def keep_running(home: TwinHome, programs: Sequence[Program], ready: Announce) -> None:
    """Starts the programs in order, each when the one before answers, calls `ready`, and starts again what ends, for ever.

    A program needs those before it: when one is started again, those after it are too. One that runs already as it should is
    taken over. Raises ChartFailed, with the end of its log, for a program that does not come up before `ready`; later that
    is logged and tried again.
    """
    records = await _bring_up_all(home, programs)
    await ready()
    pause = 0.0
    while True:
        await asyncio.sleep(pause or _POLL_SECONDS)
        dead = next((index for index, record in enumerate(records) if not record.alive()), None)
        if dead is None:
            pause = 0.0
            continue
        log.warning("%s ended: starting it again", programs[dead].service.name)
        await stop(home, programs[dead].service.name)
        try:
            records = await _bring_up_all(home, programs)
        except ChartFailed as error:
            log.warning("%s", error)
            pause = min(_LONGEST_PAUSE_SECONDS, 2 * pause or 1.0)


async def stop(home: TwinHome, name: str) -> None:
    """Ends a program by its record, if it has one."""
    record = next((r for r in processes.records(home) if r.name == name), None)
    if record is not None:
        await _to_its_end(processes.stop, home, record)


async def answers(client: httpx.AsyncClient, url: str) -> bool:
    """Whether `url` is answered with 200."""
    return (await client.get(url)).status_code == 200


async def _to_its_end(work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """What blocking `work` returns. Who cancels waits for it: a thread goes on, and would start or end a process later."""
    working = asyncio.ensure_future(asyncio.to_thread(work, *arguments, **named))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait({working})
        raise


async def _bring_up_all(home: TwinHome, programs: Sequence[Program]) -> list[Record]:
    records: list[Record] = []
    renewed = False
    for program in programs:
        before = processes.find(home, program.service.name)
        if renewed:
            await stop(home, program.service.name)
        record = await _bring_up(home, program)
        renewed = renewed or record != before
        records.append(record)
    return records


async def _bring_up(home: TwinHome, program: Program) -> Record:
    service = program.service
    record = processes.find(home, service.name)
    if record is not None and record.fingerprint != service.fingerprint():
        await stop(home, service.name)
        record = None
    if record is None:
        record = await _to_its_end(processes.start, home, service)
        log.info("started %s (process %d)", service.name, record.pid)
    try:
        async with asyncio.timeout(_START_SECONDS):
            while record.alive():
                with contextlib.suppress(OSError, httpx.HTTPError):
                    if await program.answers():
                        return record
                await asyncio.sleep(_POLL_SECONDS)
        what = f"{service.name} ended while it was starting"
    except TimeoutError:
        what = f"{service.name} did not answer within {_START_SECONDS:g} s"
    await stop(home, service.name)
    raise ChartFailed(f"{what}. The end of {record.log}:\n{processes.tail(Path(record.log))}")


class ChartRunner:
    """Follows the releases, and has for each chart that it knows the programs of what was installed last."""

    def __init__(self, api: KubeApi, programs: Mapping[str, ChartPrograms]) -> None:
        """`programs` by the chart's name."""
        self._api = api
        self._programs = programs
        self._current: dict[str, str] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._letting_go: set[asyncio.Task[None]] = set()
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self.synced = asyncio.Event()

    async def run(self) -> None:
        """Follows for ever. Cancelling it leaves the programs running, for the next agent to take over."""
        try:
            async for kind, changed in self._api.watch("/api/v1/configmaps", labelSelector=f"{LABEL}=true"):
                if kind == "SYNC":
                    await self._advertise()
                    self._synchronize(changed["items"])
                    self.synced.set()
                elif kind == "DELETED":
                    self._gone(changed["data"]["chart"])
                else:
                    self._update(changed)
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), *self._letting_go, return_exceptions=True)

    async def _advertise(self) -> None:
        """Says in the cluster for which charts this agent has programs, so that whoever installs one waits for them."""
        path, _, name = AGENT_PATH.rpartition("/")
        metadata = {"name": name, "namespace": path.split("/")[4]}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {CHARTS: " ".join(self._programs)}}
        await self._api.apply(AGENT_PATH, body)

    def _synchronize(self, config_maps: list[Object]) -> None:
        for config_map in config_maps:
            self._update(config_map)
        present = {config_map["data"]["chart"] for config_map in config_maps}
        for chart in self._programs.keys() - present:
            self._gone(chart)

    def _update(self, config_map: Object) -> None:
        chart = config_map["data"]["chart"]
        if chart not in self._programs:
            return
        metadata = config_map["metadata"]
        if "deletionTimestamp" in metadata:
            if self._is_new(chart, f"remove {metadata['uid']}"):
                self._begin(chart, lambda: self._remove(chart, config_map))
            return
        release = installed(config_map)
        if self._is_new(chart, f"run {release.installation}"):
            self._begin(chart, lambda: self._keep(config_map, release))

    def _gone(self, chart: str) -> None:
        """The ConfigMap is not there, or not any more."""
        if chart in self._programs and not self._current.get(chart, "").startswith("remove"):
            self._current[chart] = "remove"
            self._begin(chart, lambda: self._remove(chart, None))

    def _is_new(self, chart: str, what: str) -> bool:
        before, self._current[chart] = self._current.get(chart), what
        return before != what

    def _begin(self, chart: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Starts `work` on a chart as soon as all that was at work there has let go."""

        async def in_turn() -> None:
            async with self._turns[chart]:
                await work()

        before = self._tasks.get(chart)
        if before is not None:
            self._letting_go.add(before)
            before.add_done_callback(self._letting_go.discard)
            before.cancel()
        self._tasks[chart] = asyncio.create_task(in_turn())

    async def _keep(self, config_map: Object, release: Installed) -> None:
        pause = 1.0
        while True:
            try:
                await self._run(config_map, release)
            except KubeError as error:
                log.warning("chart %s: %s: %s; trying again", release.chart, type(error).__name__, error)
            except Exception:
                log.exception("chart %s: the twin's own fault; trying again", release.chart)
            await asyncio.sleep(pause)
            pause = min(_LONGEST_PAUSE_SECONDS, 2 * pause)

    async def _run(self, config_map: Object, release: Installed) -> None:
        try:
            await self._programs[release.chart].run(release, lambda: self._say(config_map, READY, release.installation))
        except (ChartFailed, ToolError) as error:
            log.warning("chart %s: %s", release.chart, error)
            await self._say(config_map, FAILURE, f"{release.installation} {error}")

    async def _remove(self, chart: str, config_map: Object | None) -> None:
        while True:
            try:
                await self._programs[chart].remove()
                if config_map is not None:
                    left = [name for name in config_map["metadata"].get("finalizers", []) if name != FINALIZER]
                    await self._patch(config_map, {"finalizers": left})
                return
            except Exception as error:
                log.warning("chart %s is not removed yet: %s: %s", chart, type(error).__name__, error)
                await asyncio.sleep(1.0)

    async def _say(self, config_map: Object, annotation: str, text: str) -> None:
        await self._patch(config_map, {"annotations": {READY: None, FAILURE: None, annotation: text}})

    async def _patch(self, config_map: Object, metadata: Object) -> None:
        own = config_map["metadata"]
        path = f"/api/v1/namespaces/{own['namespace']}/configmaps/{own['name']}"
        try:
            await self._api.patch(path, {"metadata": {"uid": own["uid"], **metadata}}, kind="merge")
        except ApiError as error:
            if error.status not in (404, 409):  # gone, or another one of that name
                raise


def installed(config_map: Object) -> Installed:
    """What a release's ConfigMap says."""
    metadata, data = config_map["metadata"], config_map["data"]
    return Installed(
        name=metadata["name"].removeprefix("twin-release-"),
        namespace=metadata["namespace"],
        chart=data["chart"],
        version=data["version"],
        values=yaml.safe_load(data.get("values.yaml") or "") or {},
        installation=(metadata.get("annotations") or {}).get(INSTALLATION, metadata["uid"]),
    )
