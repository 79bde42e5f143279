"""The kubelet's work for one container that runs as a process: start, probes, restarts, end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from twin.cluster.kube_api import Object, timestamp
from twin.host import processes
from twin.host.home import TwinHome
from twin.host.processes import Record, Service
from twin.pods import pod_spec, probes
from twin.pods.pod_spec import SpecError
from twin.pods.pod_status import ContainerStatus, is_sidecar, terminated, waiting
from twin.pods.pod_volumes import PathRewriter
from twin.pods.probes import Probe, Verdict

_POLL_SECONDS = 0.1
_LONGEST_BACKOFF_SECONDS = 30.0
"""The kubelet starts with 10 s and ends at 300 s, which is too long to wait on a laptop."""
_LEAST_GRACE_SECONDS = 2.0
"""The seconds between SIGTERM and SIGKILL even if a preStop hook used up the grace period, as with the kubelet."""

Prepare = Callable[[], Awaitable[tuple[Service, PathRewriter]]]
Report = Callable[[str, str, str], Awaitable[None]]
"""Writes an Event about the pod: reason, message, type."""


class ContainerProcess:
    """Keeps one container running by its pod's rules until `stop`, or takes over the process of an earlier agent.

    `restart_policy` is this container's, if it differs from the pod's.
    """

    def __init__(
        self,
        home: TwinHome,
        pod: Object,
        container: Mapping[str, Any],
        *,
        restart_policy: str | None = None,
        address: Callable[[], str],
        prepare: Prepare,
        report: Report,
        changed: Callable[[], None],
    ) -> None:
        self.name = process_name(pod, container)
        self.status = ContainerStatus.resume(dict(container), pod)
        self._home = home
        self._container = container
        self._containers = pod["spec"]["containers"]
        self._restart_policy = restart_policy or pod["spec"].get("restartPolicy", "Always")
        self._grace = float(pod["spec"].get("terminationGracePeriodSeconds") or 30)
        self._address = address
        self._prepare = prepare
        self._report = report
        self._changed = changed
        self._service: Service | None = None
        self._rewrite = PathRewriter({})
        self._stopping = asyncio.Event()
        self._deadline = float("inf")
        self._ending: asyncio.Task[None] | None = None

    @property
    def is_sidecar(self) -> bool:
        """Return whether it is an init container that continues to run next to the others."""
        return is_sidecar(self._container)

    async def run(self) -> None:
        """Start the process, again and again by the restart policy; return when it must not run any more."""
        record = processes.find(self._home, self.name)
        failures = 0
        if record is None and "running" in self.status.state:
            self._ended(137, "ContainerStatusUnknown")
            self.status.restart_count += 1
        while not self._stopping.is_set():
            adopted = record is not None
            if record is None:
                record = await self._start()
            elif self._service is None:
                # Hooks and probes need the environment of a process that was taken over.
                with contextlib.suppress(SpecError):
                    self._service, self._rewrite = await self._prepare()
            if record is not None:
                begun = time.monotonic()
                code = await self._live(record, adopted=adopted)
                self._ended(code, "Completed" if code == 0 else "Error")
                processes.forget(self._home, record)
                if self._restart_policy == "Never" or (self._restart_policy == "OnFailure" and code == 0):
                    return
                if time.monotonic() - begun > 2 * _LONGEST_BACKOFF_SECONDS:
                    failures = 0
            if self._stopping.is_set():
                return
            pause = backoff(failures)
            failures += 1
            if record is not None:
                self.status.last_state, self.status.state = (
                    self.status.state,
                    waiting(
                        "CrashLoopBackOff", f"back-off {pause:g}s restarting failed container={self._container['name']}"
                    ),
                )
                self._changed()
                await self._report("BackOff", f"Back-off {pause:g} s restarting {self._container['name']}", "Warning")
                self.status.restart_count += 1
            record = None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._stopping.wait()

    async def stop(self, grace: float) -> None:
        """End the container as for a deletion: preStop, SIGTERM, and SIGKILL after `grace` seconds."""
        self.hurry(grace)
        self._stopping.set()
        record = processes.find(self._home, self.name)
        if self._ending is not None:
            await self._ending
        elif record is not None:
            await self._end(record, grace, f"Stopping container {self._container['name']}")

    def hurry(self, grace: float) -> None:
        """Shorten the remaining time of an ongoing `stop`."""
        self._deadline = min(self._deadline, time.monotonic() + grace)

    async def _start(self) -> Record | None:
        """Return a new process; None, with the reason in status and Event, if the specification is invalid."""
        try:
            self._service, self._rewrite = await self._prepare()
        except SpecError as error:
            self.status.state = waiting(error.reason, str(error))
            self._changed()
            await self._report(error.reason, str(error), "Warning")
            return None
        if self._stopping.is_set():
            return None
        record = processes.start(self._home, self._service)
        await self._report("Started", f"Started container {self._container['name']} (process {record.pid})", "Normal")
        return record

    async def _live(self, record: Record, *, adopted: bool) -> int:
        """Watch a running process with its probes until it exits; return its exit code."""
        if not adopted:
            self.status.ready = self.status.started = False
        self.status.container_id = f"twin://{record.pid}-{record.started}"
        if not (adopted and "running" in self.status.state):
            self.status.state = {"running": {"startedAt": timestamp()}}
        self._changed()
        watching = asyncio.create_task(self._watch(record, adopted=adopted))
        try:
            while record.alive():
                await asyncio.sleep(_POLL_SECONDS)
        finally:
            watching.cancel()
            await asyncio.wait({watching})
        if not watching.cancelled():
            watching.result()
        if self._ending is not None:
            await self._ending
            self._ending = None
        code = record.exit_code()
        return 137 if code is None else code

    async def _watch(self, record: Record, *, adopted: bool) -> None:
        """Run the probes of one process: the startup probe gates the others; without one the container counts as started."""
        startup, readiness, liveness = (
            Probe.parse(kind, self._container.get(f"{kind}Probe")) for kind in ("startup", "readiness", "liveness")
        )
        if startup and not self.status.started and not await self._until_started(startup, record):
            return
        self.status.started = True
        if readiness is None:
            self.status.ready = True
        self._changed()
        loops = []
        if readiness:
            loops.append(self._watch_readiness(readiness, adopted))
        if liveness:
            loops.append(self._watch_liveness(liveness, record, adopted))
        await asyncio.gather(*loops)

    async def _until_started(self, probe: Probe, record: Record) -> bool:
        verdict = Verdict(probe)
        await asyncio.sleep(probe.initial_delay)
        while not self._stopping.is_set():
            success, said = await self._ask(probe)
            decided = verdict.record(success)
            if decided:
                return True
            if not success:
                await self._report("Unhealthy", f"Startup probe failed: {said}", "Warning")
            if decided is False:
                self._fail(probe, record)
                return False
            await asyncio.sleep(probe.period)
        return False

    async def _watch_readiness(self, probe: Probe, adopted: bool) -> None:
        verdict = Verdict(probe)
        if not adopted:
            await asyncio.sleep(probe.initial_delay)
        while True:  # during termination too: the EndpointSlice shows which terminating pods still serve
            success, said = await self._ask(probe)
            decided = verdict.record(success)
            if decided is not None and decided is not self.status.ready:
                self.status.ready = decided
                self._changed()
            if not success:
                await self._report("Unhealthy", f"Readiness probe failed: {said}", "Warning")
            await asyncio.sleep(probe.period)

    async def _watch_liveness(self, probe: Probe, record: Record, adopted: bool) -> None:
        verdict = Verdict(probe)
        if not adopted:
            await asyncio.sleep(probe.initial_delay)
        while not self._stopping.is_set():
            success, said = await self._ask(probe)
            if not success:
                await self._report("Unhealthy", f"Liveness probe failed: {said}", "Warning")
            if verdict.record(success) is False:
                self._fail(probe, record)
                return
            await asyncio.sleep(probe.period)

    def _fail(self, probe: Probe, record: Record) -> None:
        """Stop a process whose startup or liveness probe has finally failed; the restart policy decides what follows."""
        grace = self._grace if probe.grace_period is None else float(probe.grace_period)
        why = f"Container {self._container['name']} failed {probe.kind} probe, will be restarted"
        if self._ending is None:
            self._ending = asyncio.create_task(self._end(record, grace, why))

    async def _end(self, record: Record, grace: float, why: str) -> None:
        """Run preStop, then send SIGTERM and SIGKILL. The grace period covers the first two together."""
        deadline = time.monotonic() + grace
        await self._report("Killing", why, "Normal")
        if grace > 0:
            hook = asyncio.create_task(self._pre_stop(grace))
            while not hook.done() and record.alive() and time.monotonic() < min(deadline, self._deadline):
                await asyncio.wait({hook}, timeout=_POLL_SECONDS)
            hook.cancel()
            await asyncio.wait({hook})
            deadline = max(deadline, time.monotonic() + _LEAST_GRACE_SECONDS)
            processes.signal_record(record, signal.SIGTERM)
            while record.alive() and time.monotonic() < max(min(deadline, self._deadline), 0):
                await asyncio.sleep(_POLL_SECONDS)
        processes.signal_record(record, signal.SIGKILL)

    async def _pre_stop(self, grace: float) -> None:
        hook = (self._container.get("lifecycle") or {}).get("preStop")
        if not hook:
            return
        try:
            if "sleep" in hook:
                await asyncio.sleep(hook["sleep"]["seconds"])
            elif "exec" in hook:
                code, output = await self.execute(list(hook["exec"]["command"]), grace)
                if code != 0:
                    raise SpecError("FailedPreStopHook", f"preStop hook ended with {code}: {output.strip()[-300:]}")
            elif "httpGet" in hook:
                await probes.http_get(hook["httpGet"], self._address(), self._port, grace)
        except Exception as error:
            await self._report("FailedPreStopHook", str(error) or type(error).__name__, "Warning")

    async def _ask(self, probe: Probe) -> tuple[bool, str]:
        if "exec" in probe.handler:
            # The kubelet expands a probe's command only with the variables' literal values; others become "".
            literal = {entry["name"]: entry.get("value") or "" for entry in self._container.get("env") or []}
            command = [pod_spec.expand(word, literal) for word in probe.handler["exec"]["command"]]
            code, output = await self.execute(command, probe.timeout)
            return code == 0, output.strip()[-300:] or f"exit code {code}"
        try:
            return await probes.ask(probe, self._address(), self._port)
        except SpecError as error:
            return False, str(error)

    def _port(self, port: int | str) -> int:
        return pod_spec.port_number(port, self._containers)

    async def execute(self, command: list[str], timeout: float) -> tuple[int, str]:
        """Run a command with the container's environment; return exit code (124 after a timeout) and output."""
        if self._service is None:
            return 1, "the container's environment could not be made"
        argv = [self._rewrite(word) for word in command]
        mark = {processes.OWNER: str(self._home.path), processes.PROCESS: self.name}
        try:
            child = await asyncio.create_subprocess_exec(
                *argv,
                env={**self._service.env, **mark},
                cwd=self._service.directory,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            return 126, f"{argv[0]}: {error.strerror}"
        try:
            # Not wait_for, which before Python 3.12 loses a cancellation that arrives together with the result.
            async with asyncio.timeout(timeout):
                output, _ = await child.communicate()
        except TimeoutError:
            return 124, f"command {argv[0]!r} timed out after {timeout:g} s"
        finally:
            if child.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
                await child.wait()
        return child.returncode or 0, output.decode(errors="replace")

    def _ended(self, code: int, reason: str) -> None:
        begun = (self.status.state.get("running") or {}).get("startedAt") or timestamp()
        self.status.state = terminated(code, reason, begun)
        self.status.ready = self.status.started = False
        self._changed()


def process_name(pod: Object, container: Mapping[str, Any]) -> str:
    """Return the name under which a container's process is recorded."""
    return f"pod-{pod['metadata']['uid']}-{container['name']}"


def backoff(failures: int) -> float:
    """Return the seconds before the next start after this many failures in a row: 1, 2, 4 … up to the maximum."""
    return min(2.0**failures, _LONGEST_BACKOFF_SECONDS)
