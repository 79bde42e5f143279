"""A bucket, servers and releases for tests of rollouts between real servers."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from benchmarks.rollout_servers import LocalFleet, Servers
from modelctl.rollout import parity
from modelctl.rollout.controller import Controller, Outcome, Result, Wanted
from modelctl.rollout.fleet import Fleet, Pod
from modelctl.rollout.lease import LEASE_SECONDS, Lease
from modelctl.rollout.limits import Limits
from modelctl.rollout.replay import Replay
from modelctl.store.bucket import Store
from modelctl.store.live import LiveRepository
from modelctl.store.manifest import Manifest
from tests.paths import ROOT
from tests.system.serving import rollout_driver
from tests.system.serving.rollout_releases import MODEL, publish

ANSWER_SECONDS = 60.0
"""A missing server refuses at once; a slow server is not missing."""
# One client for all, because creating a client takes 50 ms and tests look at servers often. An idle connection would
# delay a server's exit.
_HTTP = httpx.Client(timeout=ANSWER_SECONDS, trust_env=False, limits=httpx.Limits(max_keepalive_connections=0))


@dataclass
class Site:
    """Servers that load from `live/`. `told` collects the output of every rollout in this process."""

    store: Store
    endpoint: str
    servers: Servers
    directory: Path
    told: list[str] = field(default_factory=list)

    @property
    def fleet(self) -> LocalFleet:
        return self.servers.fleet

    @property
    def live(self) -> LiveRepository:
        return LiveRepository(self.store)

    def serve_first(self, servers: int) -> None:
        """Start this number of servers with version 1."""
        assert self.rollout(self.release(1)).outcome is Outcome.SEEDED
        self.servers.start(servers)
        self.servers.until_ready(MODEL)

    def release(self, version: int, files: Mapping[str, str] | None = None, **options: Any) -> Manifest:
        return publish(self.store, self.directory / f"models-{version}", version, files, **options)

    def rollout(
        self,
        release: Manifest | None,
        *,
        canary: tuple[int, ...] = (),
        slo_p95_ms: float = 1000.0,
        replay: Replay | None = None,
        limits: Limits = rollout_driver.LIMITS,
        watch: Callable[[str], None] = lambda _: None,
        fleet: Fleet | None = None,
        lease_seconds: float = LEASE_SECONDS,
    ) -> Result:
        """Roll the release out in this process; None: --back. `watch` is called after each step."""

        def tell(line: str) -> None:
            self.told.append(line)
            watch(line)

        wanted = Wanted("local", canary, {MODEL: slo_p95_ms}, replay)
        controller = Controller(self.store, fleet or self.fleet, wanted, limits=limits, tell=tell)
        with Lease(self.live, seconds=lease_seconds) as lease:
            return controller.rollout(release.id, lease) if release else controller.back(lease)

    def start(self, release: Manifest | str, *, steps: int | None = None) -> subprocess.Popen[str]:
        """Start the rollout in a separate process, which kills itself after this number of steps."""
        release_id = release if isinstance(release, str) else release.id
        command = [sys.executable, "-m", "tests.system.serving.rollout_driver", self.endpoint, self.store.place.bucket]
        command += [str(self.servers.directory), release_id, *([str(steps)] if steps else [])]
        return subprocess.Popen(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def run(self, release: Manifest | str, *, steps: int | None = None) -> tuple[int, list[str]]:
        """Do as `start`, to the end, and return exit code and lines. The lease of a killed rollout is over afterwards."""
        with self.start(release, steps=steps) as process:
            output, _ = process.communicate(timeout=300)
        if process.returncode == -signal.SIGKILL:
            self._end_the_lease()
        return process.returncode, output.splitlines()

    def _end_the_lease(self) -> None:
        """Expire the lease without waiting for it: tests/modelctl/rollout/test_lease.py waits."""
        journal, tag = self.live.read_journal()
        assert journal.lock is not None, "whoever was killed had the lock"
        over = journal.lock.model_copy(update={"expires": datetime.now(UTC)})
        self.live.write_journal(journal.having(lock=over), tag)

    def versions(self) -> dict[str, list[int]]:
        """Return the ready versions of the model, by pod."""
        return {
            state.pod: next((served.versions for served in state.models if served.model == MODEL), [])
            for state in parity.states({"triton": self.fleet})
        }

    def differences(self) -> list[str]:
        return parity.differences(parity.states({"triton": self.fleet}))

    def servers_ready(self) -> list[bool]:
        """Return each server's own readiness, which stays at 400 after a failed load."""
        return [ask(f"{pod.http}/v2/health/ready") == 200 for pod in self.fleet.pods()]

    def answers(self, version: int) -> list[bool]:
        """Return whether each pod answers correctly with this version."""
        return [_answers(pod, version) for pod in self.fleet.pods()]

    def assert_serves(self, version: int) -> None:
        """Check that every pod, live/ and the published version have only this version, and that the lock is free."""
        assert {tuple(versions) for versions in self.versions().values()} == {(version,)}
        assert self.differences() == []
        assert self.live.models() == {MODEL: {version}}
        assert self.fleet.served()[MODEL].to_json() == f'{{"stable":{version}}}'
        journal, _ = self.live.read_journal()
        assert journal.rollout is None
        assert journal.lock is None


class Watchman:
    """Requests one version from all pods continuously in a thread, and records the smallest number of pods that answer."""

    def __init__(self, site: Site, version: int) -> None:
        self._site = site
        self._version = version
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self.worst = len(site.fleet.pods())

    def __enter__(self) -> Watchman:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._end.wait(0.05):
            self.worst = min(self.worst, sum(self._site.answers(self._version)))


def ask(url: str) -> int:
    """Return the status of a response; 0 if no server responds."""
    try:
        return _HTTP.get(url).status_code
    except httpx.HTTPError:
        return 0


def _answers(pod: Pod, version: int) -> bool:
    body = {"inputs": [{"name": "IN", "datatype": "FP32", "shape": [1, 1], "data": [1.0]}]}
    url = f"{pod.http}/v2/models/{MODEL}/versions/{version}/infer"
    try:
        answer = _HTTP.post(url, json=body)
    except httpx.HTTPError:
        return False
    return answer.status_code == 200 and answer.json()["outputs"][0]["data"] == [1.0 + version]
