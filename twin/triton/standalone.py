"""`python3 -m twin triton`: one real tritonserver for a person or a measurement, without a cluster.

The server is the twin's own (tritonserver.py), in explicit mode without models: the caller loads models over the load API.
It runs as long as the command and leaves no files.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx

from console.child import end_with_parent
from spec.failure import Failure
from spec.names import TRITON_GRPC_PORT, TRITON_HTTP_PORT, TRITON_METRICS_PORT
from twin.host import ports
from twin.host.home import SHARED_MEMORY
from twin.triton import tritonserver

_GUARD_PORT = 7999
_RANGE = "127.245"
"""Next to the pods' 127.244 (twin/cluster/pod_addresses.py)."""
_START_SECONDS = 60.0
_END_SECONDS = 30.0
_POLL_SECONDS = 0.05
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Passed on to the models: with one thread each, a measurement varies only the number of instances."""


class StandaloneFailed(Failure):
    """The server could not be started, or exited by itself; the text says why."""


def serve(models: Path, say: Callable[[str], None]) -> None:
    """Run a server over the model repository `models` until SIGINT or SIGTERM; print its addresses once it answers.

    The server's own log goes to standard error. Raises StandaloneFailed, or TritonUnavailable.
    """
    if not models.is_dir():
        raise StandaloneFailed(f"{models} is no directory: name a model repository, e.g. `python3 -m twin triton models`")
    tritonserver.check_path(models.resolve(), "name a model repository without one")
    tritonserver.check_path(Path(tempfile.gettempdir()), "set TMPDIR to a directory without one")
    with _signals() as ended, tempfile.TemporaryDirectory(prefix="twin-triton-") as folder, _own_address() as address:
        command = _command(models.resolve(), address, Path(folder))
        with _running(command, Path(folder)) as server:
            _until_ready(server, address, ended)
            if not ended:
                say(
                    f"gRPC {address}:{TRITON_GRPC_PORT}, HTTP {address}:{TRITON_HTTP_PORT}, "
                    f"metrics {address}:{TRITON_METRICS_PORT}"
                )
            while not ended:
                _raise_if_over(server)
                time.sleep(_POLL_SECONDS)


def _command(models: Path, address: str, folder: Path) -> tritonserver.Command:
    arguments = [
        f"--model-repository={models}",
        "--model-control-mode=explicit",
        f"--http-port={TRITON_HTTP_PORT}",
        f"--grpc-port={TRITON_GRPC_PORT}",
        f"--metrics-port={TRITON_METRICS_PORT}",
        f"--backend-config=python,shm-region-prefix-name={_prefix()}",
    ]
    env = {"HOME": str(folder), "TMPDIR": str(folder)} | {name: os.environ[name] for name in _THREADS if name in os.environ}
    return tritonserver.tritonserver_command(arguments, address, folder, env)


def _prefix() -> str:
    return f"twin-triton-{os.getpid()}-"


@contextlib.contextmanager
def _signals() -> Iterator[list[int]]:
    """Yield the list of signals that asked this command to stop, which is empty until the first one arrives."""
    received: list[int] = []
    before = {n: signal.signal(n, lambda number, _: received.append(number)) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _own_address() -> Iterator[str]:
    """Hold a loopback address that no other command of this kind has, with Triton's three ports free."""
    for _ in range(200):
        address = f"{_RANGE}.{random.randrange(256)}.{random.randrange(2, 255)}"  # noqa: S311 - not a secret
        with socket.socket() as guard:
            try:
                guard.bind((address, _GUARD_PORT))
                guard.listen(1)
            except OSError:
                continue
            if all(ports.is_free(address, port) for port in (TRITON_HTTP_PORT, TRITON_GRPC_PORT, TRITON_METRICS_PORT)):
                yield address
                return
    raise StandaloneFailed(
        f"no address in {_RANGE}.0.0/16 has the ports {TRITON_HTTP_PORT}-{TRITON_METRICS_PORT} free; does another program "
        "listen on one of them on every interface (0.0.0.0)?"
    )


@contextlib.contextmanager
def _running(command: tritonserver.Command, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run the server in its own session until the block ends, so that Ctrl-C reaches it only through this command."""
    server = subprocess.Popen(
        command.argv,
        env=command.env,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=2,
        start_new_session=True,
        preexec_fn=end_with_parent,
    )
    try:
        yield server
    finally:
        server.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(_END_SECONDS)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)  # its Python stubs, if it did not exit by itself
        server.wait()
        for left in Path(SHARED_MEMORY).glob(f"{_prefix()}*"):
            left.unlink(missing_ok=True)


def _until_ready(server: subprocess.Popen[bytes], address: str, ended: list[int]) -> None:
    deadline = time.monotonic() + _START_SECONDS
    with httpx.Client(base_url=f"http://{address}:{TRITON_HTTP_PORT}", timeout=2.0, trust_env=False) as client:
        while not ended:
            with contextlib.suppress(httpx.TransportError):
                if client.get("/v2/health/ready").status_code == httpx.codes.OK:
                    return
            _raise_if_over(server)
            if time.monotonic() > deadline:
                raise StandaloneFailed(
                    f"tritonserver did not answer on {address}:{TRITON_HTTP_PORT} in {_START_SECONDS:g} s"
                )
            time.sleep(_POLL_SECONDS)


def _raise_if_over(server: subprocess.Popen[bytes]) -> None:
    if server.poll() is not None:
        raise StandaloneFailed(f"tritonserver ended with exit code {server.returncode}; the lines above say why")
