"""Run `twin triton` as a separate process, because modelctl may not import the twin."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from console.child import end_with_parent
from spec.failure import NOT_TRIED, Failure

_ROOT = Path(__file__).resolve().parents[2]
_READY = re.compile(r"gRPC (?P<grpc>\S+), HTTP (?P<http>\S+), metrics \S+\n")
_END_SECONDS = 60.0
"""Longer than `twin triton` waits for the server."""


class NoServer(Failure):
    """The server did not start; the text is its own."""

    exit_code = NOT_TRIED


class ServerEnded(Failure):
    """The server exited while it was in use."""


@dataclass(frozen=True)
class Server:
    """A Triton with no model loaded, at its addresses (host:port)."""

    process: subprocess.Popen[str]
    grpc: str
    http: str
    log: Path

    def wait(self) -> None:
        """Wait until Ctrl-C. Raises ServerEnded when the server exits before."""
        try:
            code = self.process.wait()
        except KeyboardInterrupt:
            return
        raise ServerEnded(f"tritonserver exited with code {code}: {_last_words(self.log)}")


@contextmanager
def running(models: Path, log: Path) -> Iterator[Server]:
    """Yield a server on a model repository. Stop it with the block, or with this process. Raises NoServer."""
    paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "twin", "triton", str(models)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,  # Ctrl-C reaches this process only
            preexec_fn=end_with_parent,
        )
    try:
        assert process.stdout is not None
        ready = _READY.fullmatch(process.stdout.readline())
        if ready is None:
            process.wait()
            raise NoServer(_last_words(log))
        yield Server(process, ready["grpc"], ready["http"], log)
    finally:
        process.terminate()
        process.wait(_END_SECONDS)
        if process.stdout is not None:
            process.stdout.close()


def _last_words(log: Path) -> str:
    """Return the message of `twin triton`, or the end of its log without one."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    messages = [number for number, line in enumerate(lines) if line.startswith("error: ")]
    return "\n".join(lines[messages[-1] :]).removeprefix("error: ") if messages else "\n".join(lines[-10:])
