"""The process of a plugin: a gRPC server on loopback whose port is the only line on standard output."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import grpc
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc

MAX_MESSAGE = 400 * 1024 * 1024  # bytes; what the engine allows too
OPTIONS = [("grpc.max_receive_message_length", MAX_MESSAGE), ("grpc.max_send_message_length", MAX_MESSAGE)]

THREADS = 64
"""A component's Construct waits for operations that may come back to the same process."""


class EngineLog:
    """The engine's log: what is said here stands among the diagnostics of the run."""

    def __init__(self, address: str) -> None:
        self._engine = engine_pb2_grpc.EngineStub(grpc.insecure_channel(address, options=OPTIONS))
        self._said: set[str] = set()
        self._lock = threading.Lock()

    def info(self, message: str, urn: str = "") -> None:
        """Say a line to the user."""
        self._log(engine_pb2.INFO, message, urn)

    def warning_once(self, message: str) -> None:
        """Warn about the whole run; repeated calls with the same text say it once."""
        with self._lock:
            if message in self._said:
                return
            self._said.add(message)
        self._log(engine_pb2.WARNING, message, "")

    def _log(self, severity: int, message: str, urn: str) -> None:
        request = engine_pb2.LogRequest(severity=severity, message=message, urn=urn)  # type: ignore[arg-type]
        self._engine.Log(request)


def leave_on_signals() -> None:
    """End at once and silently when the engine ends its plugins.

    It does so with SIGINT, and Python's KeyboardInterrupt traceback would land in the user's diagnostics.
    """

    def leave(signum: int, _frame: object) -> None:
        os._exit(128 + signum)

    signal.signal(signal.SIGINT, leave)
    signal.signal(signal.SIGTERM, leave)


def engine_address(argv: list[str]) -> str:
    """Return the engine's own address: the last argument that is not a flag. Exits with a sentence when there is none."""
    addresses = [argument for argument in argv if not argument.startswith("-")]
    if not addresses:
        sys.exit("this is a Pulumi plugin: the pulumi program starts it, with its own address as the argument")
    return addresses[-1]


def serve(add: Callable[[grpc.Server], None]) -> None:
    """Serve what ``add`` adds until a signal comes."""
    # What is imported for each type that comes is a million objects that stay, not garbage to look through again and again.
    gc.set_threshold(50_000, 20, 100)
    server = grpc.server(ThreadPoolExecutor(max_workers=THREADS), options=OPTIONS)
    add(server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    server.wait_for_termination()
