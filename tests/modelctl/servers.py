"""Processes for the tests of modelctl, all on loopback addresses, stopped by their process id."""

import contextlib
import logging
import os
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path

import boto3
import grpc
import httpx
from moto.server import ThreadedMotoServer
from tritonclient.grpc import service_pb2_grpc

from twin.host import processes


@contextlib.contextmanager
def moto_server() -> Iterator[str]:
    """Yield the URL of a moto on a free port of 127.0.0.1."""
    logging.getLogger("werkzeug").setLevel(logging.WARNING)  # a line per request
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        url = f"http://{host}:{port}"
        # Every moto of a process has the same accounts: start without an earlier test's resources.
        httpx.post(f"{url}/moto-api/reset", timeout=60, trust_env=False).raise_for_status()
        yield url
    finally:
        server.stop()


@contextlib.contextmanager
def moto_bucket(name: str) -> Iterator[str]:
    """Yield the URL of a moto with this bucket."""
    with moto_server() as url:
        s3 = boto3.client("s3", region_name="us-west-2", endpoint_url=url)
        s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
        yield url


@contextlib.asynccontextmanager
async def serving(servicer: service_pb2_grpc.GRPCInferenceServiceServicer) -> AsyncIterator[str]:
    """Yield the target of a fake Triton gRPC server on a free port of 127.0.0.1."""
    server = grpc.aio.server()
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)


@contextlib.contextmanager
def process(argv: Sequence[str], env: dict[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process in its own group while the context lasts; its output goes to `log`."""
    with log.open("wb") as output:
        child = subprocess.Popen(argv, env=env, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        yield child
    finally:
        if child.poll() is None:
            child.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(timeout=20)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)  # stubs that outlived their server
        child.wait(timeout=10)


def wait_until(condition: Callable[[], bool], what: str, seconds: float, log: Path) -> None:
    """Poll until the condition holds; otherwise fail with `what` and the end of the log."""
    try:
        processes.wait_until(condition, what, seconds)
    except processes.DeadlinePassed as error:
        raise AssertionError(f"{error}; the log ends with\n{processes.tail(log)}") from None


def loopback_address() -> str:
    """Return an address of 127/8 with free ports 8000 to 8002."""
    for last in range(2, 255):
        address = f"127.{os.getpid() % 200 + 20}.7.{last}"
        with contextlib.ExitStack() as stack:
            try:
                for port in (8000, 8001, 8002):
                    stack.enter_context(socket.socket()).bind((address, port))
            except OSError:
                continue
            return address
    raise AssertionError("no loopback address with free ports 8000 to 8002")
