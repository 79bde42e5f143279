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

MAX_MESSAGE = 400 * 1024 * 1024  # bytes; the engine's limit too
OPTIONS = [("grpc.max_receive_message_length", MAX_MESSAGE), ("grpc.max_send_message_length", MAX_MESSAGE)]

THREADS = 64
"""A component's Construct waits for operations that may call the same process again."""


class EngineLog:
    """The engine's log: messages appear among the diagnostics of the run."""

    def __init__(self, address: str) -> None:
        self._engine = engine_pb2_grpc.EngineStub(grpc.insecure_channel(address, options=OPTIONS))
        self._said: set[str] = set()
        self._lock = threading.Lock()

    def info(self, message: str, urn: str = "") -> None:
        """Log a line for the user."""
        self._log(engine_pb2.INFO, message, urn)

    def warning_once(self, message: str) -> None:
        """Log a warning about the whole run; the same text is logged only once."""
        with self._lock:
            if message in self._said:
                return
            self._said.add(message)
        self._log(engine_pb2.WARNING, message, "")

    def _log(self, severity: int, message: str, urn: str) -> None:
        request = engine_pb2.LogRequest(severity=severity, message=message, urn=urn)  # type: ignore[arg-type]
        self._engine.Log(request)


def leave_on_signals() -> None:
    """Exit at once and silently when the engine stops its plugins.

    The engine sends SIGINT, and Python's KeyboardInterrupt traceback would appear in the user's diagnostics.
    """

    def leave(signum: int, _frame: object) -> None:
        os._exit(128 + signum)

    signal.signal(signal.SIGINT, leave)
    signal.signal(signal.SIGTERM, leave)


def engine_address(argv: list[str]) -> str:
    """Return the engine's address: the last argument that is not a flag. Exits with a message if there is none."""
    addresses = [argument for argument in argv if not argument.startswith("-")]
    if not addresses:
        sys.exit("this is a Pulumi plugin: the pulumi program starts it, with its own address as the argument")
    return addresses[-1]


def serve(add: Callable[[grpc.Server], None]) -> None:
    """Serve the services that ``add`` adds until a signal arrives."""
    # Imports for each resource type create a million permanent objects, which the garbage collector should not scan often.
    gc.set_threshold(50_000, 20, 100)
    server = grpc.server(ThreadPoolExecutor(max_workers=THREADS), options=OPTIONS)
    add(server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    server.wait_for_termination()
