"""Forward a port of this machine through a node to the API server: `aws ssm start-session`, and its end."""

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
"""The document of SSM that forwards to a host that the node reaches; needs agent 3.1.1374 or newer, which AL2023 has.

https://docs.aws.amazon.com/systems-manager/latest/userguide/session-manager-working-with-sessions-start.html
"""
OPENS_WITHIN_SECONDS = 60
_ENDS_WITHIN_SECONDS = 5
# As session-manager-plugin prints it (src/sessionmanagerplugin/session/portsession/muxportforwarding.go).
_OPENED = re.compile(r"Port (\d+) opened for sessionId")
_PROGRAMS = {
    "aws": "https://docs.aws.amazon.com/cli/latest/userguide/getting-started-install.html",
    "session-manager-plugin": (
        "https://docs.aws.amazon.com/systems-manager/latest/userguide/session-manager-working-with-install-plugin.html"
    ),
}


class TunnelUnusable(Failure):
    """There is no way to the API server; the text says what is missing."""

    exit_code = NOT_TRIED


def require_programs() -> None:
    """Raise TunnelUnusable without `aws` and the plugin that it starts."""
    missing = [f"{program} ({where})" for program, where in _PROGRAMS.items() if shutil.which(program) is None]
    if missing:
        raise TunnelUnusable(f"the tunnel needs on PATH, and does not find: {', '.join(missing)}")


@dataclass(frozen=True)
class Destination:
    """The node to go through, and the name of the API server, which that node looks up."""

    region: str
    node: str
    host: str


class Session:
    """A session of SSM that is open: `port` of this machine leads to the API server, for any number of connections."""

    def __init__(self, to: Destination, seconds: float = OPENS_WITHIN_SECONDS) -> None:
        """Start it and wait until its port is open. Raises TunnelUnusable with what `aws` said."""
        parameters = {"host": [to.host], "portNumber": ["443"]}
        self._said: deque[str] = deque(maxlen=20)
        # In a process group of its own: the terminal's Ctrl-C is not for it, and `aws` and the plugin end together.
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
        """Return the process of `aws`, and of its group."""
        return self._process.pid

    @property
    def ended(self) -> bool:
        """Return whether `aws` has ended: a session ends after 20 minutes without use, or whatever the account says."""
        return self._process.poll() is not None

    def end(self) -> None:
        """End the session. The plugin tells SSM at SIGINT; whatever does not end then is killed."""
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
        """Read what is printed until its end, so that a full pipe stops nobody."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if found := _OPENED.search(line):
                opened.put(int(found[1]))
            self._said.append(line)
        opened.put(None)
