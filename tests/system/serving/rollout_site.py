"""A bucket, servers and releases to roll out between, for tests of rollouts on real servers."""

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
"""A server that is away says so at once; one that is slow is not away."""
# One for all: making a client takes 50 ms, and whoever looks at servers has to look often. An idle connection would hold up
# the end of a server.
_HTTP = httpx.Client(timeout=ANSWER_SECONDS, trust_env=False, limits=httpx.Limits(max_keepalive_connections=0))


@dataclass
class Site:
    """Servers that load from `live/`. `told` collects the lines of every rollout that ran in this process."""

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
        """Start so many servers, which serve version 1."""
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
        """Rolls the release out in this process; None: --back. `watch` is called after each step."""

        def tell(line: str) -> None:
            self.told.append(line)
            watch(line)

        wanted = Wanted("local", canary, {MODEL: slo_p95_ms}, replay)
        controller = Controller(self.store, fleet or self.fleet, wanted, limits=limits, tell=tell)
        with Lease(self.live, seconds=lease_seconds) as lease:
            return controller.rollout(release.id, lease) if release else controller.back(lease)

    def start(self, release: Manifest | str, *, steps: int | None = None) -> subprocess.Popen[str]:
        """The rollout in a process of its own, which kills itself after so many steps."""
        release_id = release if isinstance(release, str) else release.id
        command = [sys.executable, "-m", "tests.system.serving.rollout_driver", self.endpoint, self.store.place.bucket]
        command += [str(self.servers.directory), release_id, *([str(steps)] if steps else [])]
        return subprocess.Popen(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def run(self, release: Manifest | str, *, steps: int | None = None) -> tuple[int, list[str]]:
        """As `start`, to the end; exit code and lines. The lease of one that has killed itself is over when this returns."""
        with self.start(release, steps=steps) as process:
            output, _ = process.communicate(timeout=300)
        if process.returncode == -signal.SIGKILL:
            self._end_the_lease()
        return process.returncode, output.splitlines()

    def _end_the_lease(self) -> None:
        """End the lease as time does, without waiting for it: tests/modelctl/rollout/test_lease.py waits."""
        journal, tag = self.live.read_journal()
        assert journal.lock is not None, "whoever was killed had the lock"
        over = journal.lock.model_copy(update={"expires": datetime.now(UTC)})
        self.live.write_journal(journal.having(lock=over), tag)

    def versions(self) -> dict[str, list[int]]:
        """The ready versions of the model, by pod."""
        return {
            state.pod: next((served.versions for served in state.models if served.model == MODEL), [])
            for state in parity.states({"triton": self.fleet})
        }

    def differences(self) -> list[str]:
        return parity.differences(parity.states({"triton": self.fleet}))

    def servers_ready(self) -> list[bool]:
        """Each server's own readiness, which sticks at 400 after a failed load."""
        return [ask(f"{pod.http}/v2/health/ready") == 200 for pod in self.fleet.pods()]

    def answers(self, version: int) -> list[bool]:
        """Return whether each pod answers by this version, and rightly."""
        return [_answers(pod, version) for pod in self.fleet.pods()]

    def assert_serves(self, version: int) -> None:
        """This version alone, on every pod, in live/, and in what clients are told; nobody holds the lock."""
        assert {tuple(versions) for versions in self.versions().values()} == {(version,)}
        assert self.differences() == []
        assert self.live.models() == {MODEL: {version}}
        assert self.fleet.served()[MODEL].to_json() == f'{{"stable":{version}}}'
        journal, _ = self.live.read_journal()
        assert journal.rollout is None
        assert journal.lock is None


class Watchman:
    """Asks all pods for one version all the time, in a thread, and counts how many answer at the worst moment."""

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
    """The status of an answer; 0 when nothing answers."""
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
