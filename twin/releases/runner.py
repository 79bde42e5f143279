"""The agent's side of releases: start the programs of a chart when it is installed, and stop them when it is deleted.

A `helm.v3.Release` creates a ConfigMap (twin/plugins/releases.py), in which each installation has its own mark. In
annotations next to it, the agent reports that the chart's substitute is ready, or why not. A finalizer keeps the ConfigMap
until its programs have stopped.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import yaml

from twin.cluster.kube_api import KubeApi, Object
from twin.cluster.kube_errors import ApiError, KubeError
from twin.cluster.release_marks import AGENT_PATH, CHARTS, FAILURE, FINALIZER, INSTALLATION, LABEL, READY
from twin.host.tools import ToolError
from twin.releases.chart import ChartFailed, ChartPrograms, Release

log = logging.getLogger("twin.charts")
_LONGEST_PAUSE_SECONDS = 30.0


class ChartRunner:
    """Follows the releases, and runs the programs of the last installation of each known chart."""

    def __init__(self, api: KubeApi, programs: Mapping[str, ChartPrograms]) -> None:
        """Take `programs` by the chart's name."""
        self._api = api
        self._programs = programs
        self._current: dict[str, str] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._letting_go: set[asyncio.Task[None]] = set()
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self.synced = asyncio.Event()

    async def run(self) -> None:
        """Follow the releases forever. Cancellation leaves the programs running, for the next agent to take over."""
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
        """Publish the charts for which this agent has programs, so that installers wait for them."""
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
        release = release_of(config_map)
        if self._is_new(chart, f"run {release.installation}"):
            self._begin(chart, lambda: self._keep(config_map, release))

    def _gone(self, chart: str) -> None:
        """Handle a chart whose ConfigMap does not exist, or no longer exists."""
        if chart in self._programs and not self._current.get(chart, "").startswith("remove"):
            self._current[chart] = "remove"
            self._begin(chart, lambda: self._remove(chart, None))

    def _is_new(self, chart: str, what: str) -> bool:
        before, self._current[chart] = self._current.get(chart), what
        return before != what

    def _begin(self, chart: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start `work` on a chart as soon as all earlier work on it has stopped."""

        async def in_turn() -> None:
            async with self._turns[chart]:
                await work()

        before = self._tasks.get(chart)
        if before is not None:
            self._letting_go.add(before)
            before.add_done_callback(self._letting_go.discard)
            before.cancel()
        self._tasks[chart] = asyncio.create_task(in_turn())

    async def _keep(self, config_map: Object, release: Release) -> None:
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

    async def _run(self, config_map: Object, release: Release) -> None:
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
            if error.status not in (404, 409):  # gone, or replaced by another one of that name
                raise


def release_of(config_map: Object) -> Release:
    """Return the release described by a ConfigMap."""
    metadata, data = config_map["metadata"], config_map["data"]
    return Release(
        name=metadata["name"].removeprefix("twin-release-"),
        namespace=metadata["namespace"],
        chart=data["chart"],
        version=data["version"],
        values=yaml.safe_load(data.get("values.yaml") or "") or {},
        installation=(metadata.get("annotations") or {}).get(INSTALLATION, metadata["uid"]),
    )
