"""Pods of the rendered Deployment as real tritonserver processes; the twin's own code takes the kubelet's part.

No setting of a pod is duplicated: arguments, environment, probes, preStop hook, exit timeout and grace period come from
charts/triton through Helm. The twin's modules for `make up` also replace what a process without a container needs: the
addresses and the flags that server 2.51 lacks (`tritonserver`), the paths of volumes (`pod_volumes`), and start, probes,
restarts and exit of the container (`pod_process`).
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import itertools
import os
import threading
import time
import uuid
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spec.helm_values import merge
from tests.charts import rendering
from tests.charts.rendering import Object
from twin.host import ports, processes
from twin.host.home import TwinHome
from twin.host.processes import Service
from twin.pods import pod_spec, pod_volumes
from twin.pods.pod_process import ContainerProcess, process_name
from twin.pods.pod_spec import Sources
from twin.pods.pod_volumes import PathRewriter
from twin.triton.tritonserver import tritonserver_command

HTTP, GRPC, METRICS = 8000, 8001, 8002
START_SECONDS = 90.0
"""A server starts in 2-4 s on an idle machine; this machine may be busy."""
_ADDRESSES = itertools.count(2)
_CALL_SECONDS = 30.0
_RELEASE_BYTES = 1 << 20
_REFUSING = "Waiting for in-flight requests to complete"


@dataclass(frozen=True)
class Bucket:
    """The place of a release: `<endpoint>/<bucket>/releases/<release>`, as the chart's values name it."""

    endpoint: str
    name: str
    release: str


@dataclass(frozen=True)
class Exit:
    """The exit of a pod: the server's exit code, and the seconds since the deletion (preStop included)."""

    code: int
    seconds: float


class Pod:
    """A pod. Every wait has a deadline, and its error names the missing condition."""

    def __init__(
        self, kubelet: Kubelet, spec: Object, name: str, address: str, directory: Path | None, wrapper: tuple[str, ...]
    ) -> None:
        self.spec = spec
        self.name = name
        self.address = address
        self.events: list[tuple[str, str]] = []
        """Reason and message of what the kubelet would report, oldest first."""
        self._kubelet = kubelet
        self._repository = directory
        self._wrapper = wrapper
        self.uid = str(uuid.uuid4())
        self._object: Object = {"metadata": {"name": name, "namespace": "triton", "uid": self.uid}, "spec": spec}
        self.directory = kubelet.home.pods / self.uid
        (container,) = spec["containers"]
        self.container: Object = container
        self.log = self.directory / "triton.log"
        self.volumes = self.directory / "volumes"
        self._process = ContainerProcess(
            kubelet.home,
            self._object,
            container,
            address=lambda: address,
            prepare=self._prepare,
            report=self._report,
            changed=lambda: None,
        )
        self._running: concurrent.futures.Future[None] | None = None

    @property
    def http(self) -> str:
        return f"http://{self.address}:{HTTP}"

    @property
    def grpc(self) -> str:
        return f"{self.address}:{GRPC}"

    @property
    def admin_key(self) -> str:
        """Return the key of the restricted APIs (header `x-admin-key`)."""
        return (self.volumes / "admin" / "admin-key").read_text()

    @property
    def ready(self) -> bool:
        """Return whether the rendered readiness probe passes, with its thresholds."""
        return self._process.status.ready

    @property
    def started(self) -> bool:
        """Return whether the rendered startup probe has passed."""
        return self._process.status.started

    @property
    def state(self) -> Object:
        """Return the container's state as in the API: `running`, `waiting` or `terminated`."""
        return self._process.status.state

    @property
    def last_state(self) -> Object:
        return self._process.status.last_state

    @property
    def restarts(self) -> int:
        return self._process.status.restart_count

    @property
    def grace_seconds(self) -> float:
        return float(self.spec["terminationGracePeriodSeconds"])

    @property
    def pre_stop_seconds(self) -> float:
        return float(self.container["lifecycle"]["preStop"]["sleep"]["seconds"])

    @property
    def exit_timeout_seconds(self) -> float:
        return float(rendering.flag(self.container, "--exit-timeout-secs"))

    @property
    def pid(self) -> int:
        """Return the pid of the container's process. Raises AssertionError if none runs."""
        record = processes.find(self._kubelet.home, process_name(self._object, self.container))
        assert record is not None, f"pod {self.name} has no process; it is {self.state}"
        return record.pid

    def log_text(self) -> str:
        with contextlib.suppress(FileNotFoundError):
            return self.log.read_text(errors="replace")
        return ""

    def messages(self, reason: str) -> list[str]:
        """Return the messages of the events with that reason."""
        return [message for seen, message in self.events if seen == reason]

    def start(self) -> Pod:
        """Start the pod without waiting for it."""
        self._running = self._kubelet.submit(self._process.run())
        return self

    def until(self, condition: Callable[[], Any], what: str, seconds: float = START_SECONDS) -> None:
        """Poll until the condition holds. Else raises AssertionError with the pod's events and the end of its log."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                tail = "\n".join(self.log_text().splitlines()[-25:])
                raise AssertionError(
                    f"pod {self.name}: waited {seconds:g} s in vain for {what}; it is {self.state}; "
                    f"events {self.events[-6:]}; the log ends with\n{tail}"
                )
            time.sleep(0.02)

    def until_ready(self, seconds: float = START_SECONDS) -> Pod:
        self.until(lambda: self.ready or self.restarts, "the readiness probe to pass", seconds)
        assert self.ready, f"pod {self.name} ended while it started; its log:\n{self.log_text()[-4000:]}"
        return self

    def until_logged(self, text: str, seconds: float = START_SECONDS) -> None:
        self.until(lambda: text in self.log_text(), f"the log to say {text!r}", seconds)

    def until_terminating(self) -> None:
        """Wait until the server has acted on its SIGTERM: after its HTTP port is closed it logs its next wait."""

        def closed() -> bool:
            said = self.log_text().partition("Signal (15) received")[2]
            return "HTTP service connections" in said or _REFUSING in said

        self.until(closed, "the server to close its HTTP port", self.pre_stop_seconds + START_SECONDS)

    def until_refusing(self) -> None:
        """Wait until a terminating server accepts no request, also over gRPC."""
        self.until_logged(_REFUSING)

    def delete(self) -> concurrent.futures.Future[Exit]:
        """Delete the pod (preStop, SIGTERM, SIGKILL at the end of the grace period), and return its exit."""
        return self._kubelet.submit(self._end(self.grace_seconds))

    def stop(self) -> None:
        """Stop everything that still runs, at once."""
        if self._running is not None and not self._running.done():
            self._kubelet.submit(self._end(0)).result(_CALL_SECONDS)

    async def _end(self, grace: float) -> Exit:
        begun = time.monotonic()
        await self._process.stop(grace)
        if self._running is not None:
            await asyncio.wrap_future(self._running)
        code = self._process.status.state.get("terminated", {}).get("exitCode", -1)
        return Exit(code, time.monotonic() - begun)

    async def _report(self, reason: str, message: str, kind: str) -> None:
        self.events.append((reason, message))

    async def _prepare(self) -> tuple[Service, PathRewriter]:
        """Prepare a pod as `twin.pods.pod_worker` does, without an API server."""
        directories = await pod_volumes.materialize(self._object, self.volumes, Sources(), _no_token)
        rewrite = pod_volumes.rewriter(self.container, directories)
        variables = pod_spec.environment(self.container, self._object, self.address, Sources())
        words = [rewrite(word) for word in pod_spec.arguments(self.container, variables)]
        if self._repository is not None:
            words = [_in_directory(word, self._repository) for word in words]
        env = {name: rewrite(value) for name, value in variables.items()}
        env |= {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "PYTHONDONTWRITEBYTECODE": "1"}
        command = tritonserver_command(words, self.address, self._kubelet.cache, env)
        prefix = f"{self._kubelet.home.shared_memory_prefix}{self.uid}-"
        service = Service(
            name=process_name(self._object, self.container),
            argv=(*self._wrapper, *command.argv, f"--backend-config=python,shm-region-prefix-name={prefix}"),
            env=command.env,
            directory=self.directory,
            shared_memory=prefix,
            log=self.log,
        )
        return service, rewrite


class Kubelet:
    """Runs pods in an event loop in a separate thread, so tests and load generators can use their own loops."""

    def __init__(self, home: TwinHome, cache: Path) -> None:
        self.home = home
        self.cache = cache
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="kubelet")
        self._thread.start()
        self._pods: list[Pod] = []

    def pod(
        self,
        models: Mapping[str, int],
        repository: Path | Bucket,
        overrides: Mapping[str, Any] | None = None,
        *,
        name: str = "",
        wrapper: tuple[str, ...] = (),
    ) -> Pod:
        """Return a pod of the chart's Deployment (values: base.yaml, local.yaml, `overrides`), not started yet.

        `models` are the served models with their versions, which readiness checks. `repository` is the bucket of a moto, or
        a directory that replaces it. `wrapper` is a command that starts the server's command (unshare).
        """
        values = merge({"release": {"models": dict(models)}}, overrides or {})
        if isinstance(repository, Bucket):
            s3 = {"bucket": repository.name, "prefix": f"releases/{repository.release}", "endpoint": repository.endpoint}
            release = {"id": repository.release, "bytes": _RELEASE_BYTES}
            values = merge(values, {"modelRepository": {"s3": s3}, "release": release})
        spec = rendering.pod(values, environment="local")
        directory = repository if isinstance(repository, Path) else None
        pod = Pod(self, spec, name or f"triton-{len(self._pods)}", free_address(), directory, wrapper)
        self._pods.append(pod)
        return pod

    def submit(self, work: Coroutine[Any, Any, Any]) -> concurrent.futures.Future[Any]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def close(self) -> None:
        """Stop every pod and the thread."""
        try:
            for pod in self._pods:
                pod.stop()
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_CALL_SECONDS)
            self._loop.close()
            processes.stop_all(self.home, seconds=1)


@contextlib.contextmanager
def running_kubelet(directory: Path, cache: Path) -> Iterator[Kubelet]:
    """Run a kubelet during the context, and stop its pods at the end."""
    kubelet = Kubelet(TwinHome(directory), cache)
    try:
        yield kubelet
    finally:
        kubelet.close()


def _in_directory(argument: str, repository: Path) -> str:
    return f"--model-repository={repository}" if argument.startswith("--model-repository=") else argument


def free_address() -> str:
    """Return an address of 127/8 that this process has not used and that has no listener, as a pod's IP."""
    process = os.getpid()
    for number in itertools.islice(_ADDRESSES, 1000):
        address = f"127.{40 + process // 256 % 60}.{process % 256}.{number % 250 + 2}"
        if all(ports.is_free(address, port) for port in (HTTP, GRPC, METRICS)):
            return address
    raise AssertionError(f"no loopback address has the ports {HTTP}, {GRPC} and {METRICS} free")


async def _no_token(audience: str, seconds: int) -> str:
    raise AssertionError("the chart projects no service account token")
