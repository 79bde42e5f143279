"""Run real servers on loopback addresses as a fleet's pods, and restart terminated ones, like a kubelet.

The fleet is read from files, so a rollout in another process (for example a killed one) can use it too.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx

from modelctl.rollout.fleet import FleetError, Pod, ServedVersion
from spec.files import write_whole
from twin.triton.tritonserver import tritonserver_command

HTTP, GRPC, METRICS = 8000, 8001, 8002
EXPLICIT = ("--model-control-mode=explicit", "--load-model=*")
_RESTRICTED = "model-repository,shared-memory,trace,logging"
_GRACE_SECONDS = 6.0
_POLL_SECONDS = 0.05


@dataclass(frozen=True)
class _Record:
    """One running server, as recorded in the files."""

    name: str
    uid: str
    address: str
    pid: int


class LocalFleet:
    """The running servers of this directory, with the interface of `modelctl.rollout.fleet.Fleet`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def pods(self) -> list[Pod]:
        return [_pod(record) for record in self.records()]

    def records(self) -> list[_Record]:
        """Return running servers; one that terminates meanwhile may remove its file before it is read."""
        records = []
        for path in sorted(self._directory.glob("*.pod.json")):
            with contextlib.suppress(FileNotFoundError):
                records.append(_Record(**json.loads(path.read_text())))
        return records

    def release(self, pod: Pod) -> str | None:  # noqa: ARG002 (they serve live/)
        return None

    def restart(self, pod: Pod) -> None:
        """Send SIGTERM, then SIGKILL after the grace period, which a server with a hanging load needs."""
        record = next((r for r in self.records() if r.uid == pod.uid), None)
        if record is None:
            return
        _signal(record.pid, signal.SIGTERM)
        if not _within(_GRACE_SECONDS, lambda: all(r.uid != pod.uid for r in self.records())):
            _signal(record.pid, signal.SIGKILL)
            if not _within(_GRACE_SECONDS, lambda: all(r.uid != pod.uid for r in self.records())):
                raise FleetError(f"{pod.name} does not end")

    def served(self) -> dict[str, ServedVersion]:
        with contextlib.suppress(FileNotFoundError):
            data = json.loads((self._directory / "served.json").read_text())
            return {model: ServedVersion.parse(model, text) for model, text in data.items()}
        return {}

    def serve(self, versions: Mapping[str, ServedVersion | None]) -> None:
        merged = {**self.served(), **versions}
        data = {model: version.to_json() for model, version in merged.items() if version is not None}
        write_whole(self._directory / "served.json", json.dumps(data).encode())


class Servers:
    """Servers that load from `repository` (a directory, or s3://http://…) and are restarted when they terminate."""

    def __init__(self, directory: Path, cache: Path, repository: str, arguments: Sequence[str] = EXPLICIT) -> None:
        self.directory = directory
        self.fleet = LocalFleet(directory)
        self._cache = cache
        self._repository = repository
        self._arguments = arguments
        self._threads: list[threading.Thread] = []
        self._closing = threading.Event()
        self._last = 1
        directory.mkdir(parents=True, exist_ok=True)

    def start(self, count: int) -> None:
        """Start this many more; `until_ready` waits for them."""
        for _ in range(count):
            number = len(self._threads)
            # Each search begins after the previous server's host, which may not listen yet.
            self._last = _free_host(self._last + 1)
            arguments = (f"triton-{number}", _address(self._last))
            self._threads.append(threading.Thread(target=self._supervise, args=arguments, daemon=True))
            self._threads[-1].start()

    def until_ready(self, model: str, seconds: float = 60.0) -> None:
        """Wait until every server is ready for this model. Raises TimeoutError with the end of a log."""

        def ready() -> bool:
            pods = self.fleet.pods()
            return len(pods) == len(self._threads) and all(_answers(f"{p.http}/v2/models/{model}/ready") for p in pods)

        if not _within(seconds, ready):
            logs = "\n".join(path.read_text(errors="replace")[-1500:] for path in sorted(self.directory.glob("*.log")))
            raise TimeoutError(f"waited {seconds:g} s for {model} on every server; their logs end with\n{logs}")

    def grpc_addresses(self) -> list[str]:
        return [f"{record.address}:{GRPC}" for record in self.fleet.records()]

    def kill(self, name: str) -> None:
        """Kill one, like a crash; it is restarted."""
        record = next(r for r in self.fleet.records() if r.name == name)
        _signal(record.pid, signal.SIGKILL)

    def stop(self) -> None:
        """Stop all servers."""
        self._closing.set()
        for record in self.fleet.records():
            _signal(record.pid, signal.SIGTERM)
        for thread in self._threads:
            thread.join(3 * _GRACE_SECONDS)

    def _supervise(self, name: str, address: str) -> None:
        generation = 0
        while not self._closing.is_set():
            generation += 1
            record = self.directory / f"{name}.pod.json"
            process = self._launch(name, address, generation)
            known = _Record(name, f"{self.directory.name}-{name}-{generation}", address, process.pid)
            write_whole(record, json.dumps(asdict(known)).encode())
            self._wait(process)
            record.unlink()
            # Stubs that outlived their server.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            for left in Path("/dev/shm").glob(f"{_prefix(name, address)}*"):  # noqa: S108 (the servers' own)
                left.unlink(missing_ok=True)

    def _repository_of(self, name: str) -> str:  # noqa: ARG002 (one for all)
        return self._repository

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        while process.poll() is None:
            if self._closing.wait(_POLL_SECONDS):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_GRACE_SECONDS)
                _signal(process.pid, signal.SIGKILL)
                process.wait()

    def _launch(self, name: str, address: str, generation: int) -> subprocess.Popen[bytes]:
        volume = self.directory / f"{name}.models"
        shutil.rmtree(volume, ignore_errors=True)
        volume.mkdir()
        arguments = [
            f"--model-repository={self._repository_of(name)}",
            *self._arguments,
            "--disable-auto-complete-config",
            "--exit-on-error=true",
            "--exit-timeout-secs=5",
            "--log-format=ISO8601",
            f"--http-restricted-api={_RESTRICTED}:x-admin-key={admin_key(name)}",
            f"--backend-config=python,shm-region-prefix-name={_prefix(name, address)}",
        ]
        env = {
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-west-2",
            "TRITON_AWS_MOUNT_DIRECTORY": str(volume),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        command = tritonserver_command(arguments, address, self._cache, env)
        with (self.directory / f"{name}.{generation}.log").open("wb") as log:
            return subprocess.Popen(
                command.argv, env=command.env, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )


@contextlib.contextmanager
def local_servers(directory: Path, cache: Path, repository: str, arguments: Sequence[str] = EXPLICIT) -> Iterator[Servers]:
    """Yield the fleet without started servers; the context stops them at its end."""
    servers = Servers(directory, cache, repository, arguments)
    try:
        yield servers
    finally:
        servers.stop()


def admin_key(name: str) -> str:
    """Return the key of a server's load API."""
    return name.replace("-", "")


def _pod(record: _Record) -> Pod:
    return Pod(
        record.name,
        record.uid,
        http=f"http://{record.address}:{HTTP}",
        metrics=f"http://{record.address}:{METRICS}",
        admin_key=lambda: admin_key(record.name),
    )


def _prefix(name: str, address: str) -> str:
    return f"rollout-{name}-{address}-"


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=2, trust_env=False).status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False


def _within(seconds: float, condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _address(host: int) -> str:
    return f"127.{os.getpid() % 100 + 110}.{os.getpid() // 100 % 250}.{host}"


def _free_host(first: int) -> int:
    """Return the first free host of this process's network, from `first` on."""
    for host in range(first, 255):
        with contextlib.ExitStack() as stack:
            try:
                for port in (HTTP, GRPC, METRICS):
                    stack.enter_context(socket.socket()).bind((_address(host), port))
            except OSError:
                continue
            return host
    raise RuntimeError(f"no address from {_address(first)} on has the ports {HTTP} to {METRICS} free")
