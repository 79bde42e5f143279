"""Forward a local port through a node to the API server with `aws ssm start-session`."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections import deque
from dataclasses import dataclass
from queue import Empty, SimpleQueue

from spec.failure import NOT_TRIED, Failure

DOCUMENT = "AWS-StartPortForwardingSessionToRemoteHost"
"""The SSM document that forwards to a host that the node reaches.

It needs agent 3.1.1374 or newer, which AL2023 has.
https://docs.aws.amazon.com/systems-manager/latest/userguide/session-manager-working-with-sessions-start.html
"""
OPENS_WITHIN_SECONDS = 60
_ENDS_WITHIN_SECONDS = 5
# The output of session-manager-plugin (src/sessionmanagerplugin/session/portsession/muxportforwarding.go).
_OPENED = re.compile(r"Port (\d+) opened for sessionId")
_PROGRAMS = {
    "aws": "https://docs.aws.amazon.com/cli/latest/userguide/getting-started-install.html",
    "session-manager-plugin": (
        "https://docs.aws.amazon.com/systems-manager/latest/userguide/session-manager-working-with-install-plugin.html"
    ),
}


class TunnelUnusable(Failure):
    """The API server cannot be reached. The text names the missing part."""

    exit_code = NOT_TRIED


def require_programs() -> None:
    """Raise TunnelUnusable without `aws` and the plugin that it starts."""
    missing = [f"{program} ({where})" for program, where in _PROGRAMS.items() if shutil.which(program) is None]
    if missing:
        raise TunnelUnusable(f"the tunnel needs on PATH, and does not find: {', '.join(missing)}")


@dataclass(frozen=True)
class Destination:
    """The node for the session, and the API server's name, which that node resolves."""

    region: str
    node: str
    host: str


class Session:
    """An open SSM session. Its local `port` leads to the API server, for any number of connections."""

    def __init__(self, to: Destination, seconds: float = OPENS_WITHIN_SECONDS) -> None:
        """Start it and wait until its port is open. Raises TunnelUnusable with the output of `aws`."""
        parameters = {"host": [to.host], "portNumber": ["443"]}
        self._said: deque[str] = deque(maxlen=20)
        # In a separate process group: the terminal's Ctrl-C does not reach it, and `aws` and the plugin end together.
        self._process = subprocess.Popen(
            [
                *("aws", "ssm", "start-session", "--region", to.region, "--target", to.node),
                *("--document-name", DOCUMENT, "--parameters", json.dumps(parameters)),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
        opened: SimpleQueue[int | None] = SimpleQueue()
        threading.Thread(target=self._read, args=(opened,), daemon=True).start()
        try:
            port = opened.get(timeout=seconds)
        except Empty:
            port = None
            self._said.append(f"no port was open after {seconds:g} s")
        except BaseException:
            self.end()
            raise
        if port is None:
            self.end()
            raise TunnelUnusable(
                f"no session through {to.node}: {' '.join(' '.join(self._said).split()) or 'aws said nothing'}"
            )
        self.port = port

    @property
    def pid(self) -> int:
        """Return the process id of `aws`, which is also its group's id."""
        return self._process.pid

    @property
    def ended(self) -> bool:
        """Return whether `aws` has exited.

        A session ends after 20 minutes without use, or after the account's own limit.
        """
        return self._process.poll() is not None

    def end(self) -> None:
        """End the session. The plugin informs SSM at SIGINT; processes that are still running are killed."""
        deadline = time.monotonic() + _ENDS_WITHIN_SECONDS
        self._signal(signal.SIGINT)
        while not self.ended and time.monotonic() < deadline:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=max(0.0, deadline - time.monotonic()))
        self._signal(signal.SIGKILL)
        self._process.wait()

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def _read(self, opened: SimpleQueue[int | None]) -> None:
        """Read the output to its end, because a full pipe would block the processes."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if found := _OPENED.search(line):
                opened.put(int(found[1]))
            self._said.append(line)
        opened.put(None)
