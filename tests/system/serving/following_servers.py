"""Real servers that read their own disks, each next to a real `modelctl follow`, as in a pod."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from benchmarks.rollout_servers import LocalFleet, Servers
from modelctl.rollout.fleet import Pod
from modelctl.store.bucket import Store
from spec.names import CURRENT_RELEASE, FOLLOWER_PORT
from tests.paths import ROOT


class FollowingFleet(LocalFleet):
    """Pods with a follower each."""

    def pods(self) -> list[Pod]:
        return [replace(pod, follower=pod.http.rpartition(":")[0] + f":{FOLLOWER_PORT}") for pod in super().pods()]


class FollowingServers(Servers):
    """Servers that start after `modelctl follow --once` has exited; `modelctl follow` then runs next to each."""

    def __init__(self, directory: Path, cache: Path, store: Store, endpoint: str) -> None:
        super().__init__(directory, cache, "")
        self.fleet = FollowingFleet(directory)
        self._where = ["--bucket", store.place.bucket, "--endpoint-url", endpoint]
        self.followers: dict[str, subprocess.Popen[bytes]] = {}

    def disk(self, name: str) -> Path:
        """Return the directory with a server's models."""
        return self.directory / f"{name}.disk"

    def log(self, name: str) -> Path:
        return self.directory / f"{name}.follow.txt"

    def follow(self, name: str, address: str) -> None:
        """Start the follower of a server, in place of one that has exited."""
        self.followers[name] = self._command(name, "--serve", f"{address}:{FOLLOWER_PORT}")

    def end_follower(self, name: str) -> None:
        """Kill the follower, as a node without free memory does."""
        if (follower := self.followers.pop(name, None)) is not None:
            follower.send_signal(signal.SIGKILL)
            follower.wait()

    def stop(self) -> None:
        super().stop()
        for name in [*self.followers]:
            self.end_follower(name)

    def _launch(self, name: str, address: str, generation: int) -> subprocess.Popen[bytes]:
        # Another pod, with a separate disk.
        self.end_follower(name)
        shutil.rmtree(self.disk(name), ignore_errors=True)
        before = self._command(name, "--once")
        assert before.wait() == 0, self.log(name).read_text()
        self.follow(name, address)
        return super()._launch(name, address, generation)

    def _repository_of(self, name: str) -> str:
        return str(self.disk(name) / CURRENT_RELEASE)

    def _command(self, name: str, *more: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "modelctl", "follow", *self._where, "--to", str(self.disk(name)), *more]
        with self.log(name).open("ab") as log:
            return subprocess.Popen(
                command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=log, stderr=subprocess.STDOUT
            )


@contextlib.contextmanager
def following_servers(directory: Path, cache: Path, store: Store, endpoint: str) -> Iterator[FollowingServers]:
    """Return servers, none started yet, that stop with the context."""
    servers = FollowingServers(directory, cache, store, endpoint)
    try:
        yield servers
    finally:
        servers.stop()
