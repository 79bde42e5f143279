"""Background processes that outlive the command that started them, and that the next command finds again.

A process is identified by its pid *and* its start time, so a pid that the kernel has reused is not mistaken for the twin's.
Each process and its children also have two environment variables, `TWIN_OWNER` (the home) and `TWIN_PROCESS` (its name).
So the next command finds a process even if its starter was killed before recording it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from spec.failure import Failure
from twin.host.home import SHARED_MEMORY, TwinHome, read_json, write_json

T = TypeVar("T")
OWNER, PROCESS = "TWIN_OWNER", "TWIN_PROCESS"
_POLL_SECONDS = 0.02
_children: dict[int, subprocess.Popen[bytes]] = {}
"""The processes that this command started: only their parent can reap them."""


class ProcessFailed(Failure):
    """A process exited while it was starting; the text has the last lines of its log."""


class DeadlinePassed(Failure):
    """A condition did not become true in time; the text says which, and how long the wait was."""


@dataclass(frozen=True)
class Service:
    """A program to keep running.

    `env` is its complete environment. `depends_on` is any other input (file contents, URLs) whose change must restart it.
    Services with a higher `stop_order` are stopped first. `shared_memory` is the name prefix of its leftovers in /dev/shm,
    which are deleted after a kill; it must begin with the home's prefix.
    """

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    directory: Path
    stop_order: int = 0
    depends_on: str = ""
    shared_memory: str = ""
    log: Path | None = None

    def fingerprint(self) -> str:
        """Return a digest. It is equal for two services if a running process of one can serve as the other."""
        # PATH is left out because it differs from shell to shell, and restarting moto loses its account.
        env = sorted((name, value) for name, value in self.env.items() if name != "PATH")
        content = json.dumps([self.argv, env, str(self.directory), self.depends_on])
        return hashlib.sha256(content.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Record:
    """A started process. `started` is in clock ticks since the boot `boot`, from /proc/<pid>/stat."""

    name: str
    pid: int
    started: int
    argv: list[str]
    fingerprint: str
    log: str
    stop_order: int = 0
    shared_memory: str = ""
    boot: str = ""

    def alive(self) -> bool:
        """Return whether the process still runs, and is the one that was started."""
        child = _children.get(self.pid)
        if child is not None and child.poll() is not None:
            return False
        return start_time(self.pid) == self.started and self.boot in ("", _boot())

    def exit_code(self) -> int | None:
        """Return the exit code, 128 + N for signal N; None while it runs, and if another command started it."""
        child = _children.get(self.pid)
        code = child.poll() if child is not None else None
        return code if code is None or code >= 0 else 128 - code


def start_time(pid: int) -> int | None:
    """Return when process `pid` started, in clock ticks since boot; None if it does not exist or is only a zombie.

    A killed process is already a zombie when its first thread is gone, while other threads still hold its sockets. It then
    counts as existing.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, *fields = stat.rpartition(")")[2].split()
    threads, started = int(fields[16]), int(fields[18])
    return None if state == "X" or (state == "Z" and threads <= 1) else started


def find(home: TwinHome, name: str) -> Record | None:
    """Return the running process of that name in this twin, or None."""
    record = _read(home.run / f"{name}.json")
    return record if record and record.alive() else None


def records(home: TwinHome) -> list[Record]:
    """Return the record of every process that was started and not stopped, alive or not, if readable; see also `marked`."""
    return [record for path in sorted(home.run.glob("*.json")) if (record := _read(path)) is not None]


def _read(path: Path) -> Record | None:
    """Return the record in a file; None if it has none. Keys of other versions of this program are ignored."""
    try:
        record = TypeAdapter(Record).validate_python(read_json(path))
    except ValidationError:
        return None
    return record if record.name == path.stem else None


def _boot() -> str:
    """Return an identifier of this boot of the machine; pids start again after a reboot."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def start(home: TwinHome, service: Service) -> Record:
    """Start `service` in its own session, append its output to its log, and record it.

    First kill a process of the same name without a record, whose starter was killed.
    """
    end_marked(home, service.name)
    log = service.log or home.logs / f"{service.name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    env = {**service.env, OWNER: str(home.path), PROCESS: service.name}
    with log.open("ab") as output:
        child = subprocess.Popen(
            service.argv,
            cwd=service.directory,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    _children[child.pid] = child
    started = start_time(child.pid)
    record = Record(
        name=service.name,
        pid=child.pid,
        started=-1 if started is None else started,
        argv=list(service.argv),
        fingerprint=service.fingerprint(),
        log=str(log),
        stop_order=service.stop_order,
        shared_memory=service.shared_memory,
        boot=_boot(),
    )
    write_json(home.run / f"{service.name}.json", asdict(record))
    return record


def ensure(home: TwinHome, service: Service, *, ready: Callable[[], bool], what: str, seconds: float) -> bool:
    """Start `service` unless it runs, and wait until it is ready; return whether it had to be started.

    A running process with another fingerprint is stopped first. `ready` may raise OSError while there is no answer yet.
    Raises ProcessFailed if the process exits before it is ready, DeadlinePassed if it is not ready in time.
    """
    running = find(home, service.name)
    if running is not None and running.fingerprint != service.fingerprint():
        stop(home, running)
        running = None
    record = running or start(home, service)

    def check() -> bool:
        try:
            answer = ready()
        except OSError:
            answer = False
        if not answer and not record.alive():
            code = record.exit_code()
            ended = "ended" if code is None else f"ended with exit code {code}"
            raise ProcessFailed(f"{service.name} {ended} while starting. The end of {record.log}:\n{tail(Path(record.log))}")
        return answer

    wait_until(check, what, seconds)
    return running is None


def wait_until(condition: Callable[[], T], what: str, seconds: float, poll: float = 0.05) -> T:
    """Return the first true value of `condition`. Raises DeadlinePassed, which names `what`, after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() >= deadline:
            raise DeadlinePassed(f"waited {seconds:g} s in vain for {what}")
        time.sleep(poll)


def signal_record(record: Record, number: int) -> bool:
    """Send a signal to exactly the recorded process; return whether it still existed."""
    return _signal(record.pid, number, record.alive)


def stop(home: TwinHome, record: Record, seconds: float = 10.0) -> None:
    """Send SIGTERM to the process, kill it and its children after `seconds`, and delete its record."""
    stop_together(home, [record], seconds)


def stop_together(home: TwinHome, group: list[Record], seconds: float) -> None:
    """Stop several processes at once, as `stop` does for one; they share the deadline."""
    for record in group:
        signal_record(record, signal.SIGTERM)
    deadline = time.monotonic() + seconds
    while any(r.alive() for r in group) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    for record in group:
        signal_record(record, signal.SIGKILL)
        forget(home, record)


def forget(home: TwinHome, record: Record) -> None:
    """Remove the leftovers of a process that exited: its children, its files in /dev/shm, its record."""
    end_marked(home, record.name)
    if record.shared_memory.startswith(home.shared_memory_prefix):
        for left in Path(SHARED_MEMORY).iterdir():
            if left.name.startswith(record.shared_memory):
                left.unlink(missing_ok=True)
    child = _children.pop(record.pid, None)
    if child is not None:
        child.wait()
    path = home.run / f"{record.name}.json"
    if (read_json(path) or {}).get("pid") == record.pid:
        path.unlink(missing_ok=True)


def stop_all(home: TwinHome, seconds: float = 20.0) -> list[str]:
    """Stop every process of this twin, dependants first, and return the names of those that were running."""
    known = records(home)
    stopped = [record.name for record in known if record.alive()]
    for order in sorted({record.stop_order for record in known}, reverse=True):
        stop_together(home, [r for r in known if r.stop_order == order], seconds)
    strays = marked(home)
    stopped += sorted(set(strays.values()))
    for name in set(strays.values()):
        end_marked(home, name)
    return stopped


def marked(home: TwinHome, name: str | None = None) -> dict[int, str]:
    """Return the processes (pid: name) that carry this twin's mark in their environment, recorded or not."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            process = _mark(int(entry.name), home)
            if process is not None and name in (None, process):
                found[int(entry.name)] = process
    return found


def tail(log: Path, lines: int = 20) -> str:
    """Return the last lines of a log, without reading all of it."""
    with contextlib.suppress(FileNotFoundError), log.open("rb") as stream:
        stream.seek(max(0, stream.seek(0, os.SEEK_END) - 16384))
        return "\n".join(stream.read().decode(errors="replace").splitlines()[-lines:])
    return "(no log)"


def _mark(pid: int, home: TwinHome) -> str | None:
    if start_time(pid) is None:
        return None
    try:
        content = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return None
    entries = dict(e.partition("=")[::2] for e in content.decode(errors="replace").split("\0"))
    return entries.get(PROCESS) if entries.get(OWNER) == str(home.path) else None


def end_marked(home: TwinHome, name: str) -> None:
    """Kill every process with the mark of `name`, except the caller, and wait until they are gone.

    Raises DeadlinePassed.
    """
    deadline = time.monotonic() + 10
    while strays := marked(home, name):
        for pid in strays:
            _signal(pid, signal.SIGKILL, lambda pid=pid: _mark(pid, home) == name)  # type: ignore[misc]
            child = _children.get(pid)
            if child is not None:
                child.wait()
        if time.monotonic() > deadline:
            raise DeadlinePassed(f"{name}: the processes {sorted(strays)} do not end")
        time.sleep(_POLL_SECONDS)


def _signal(pid: int, number: int, still_ours: Callable[[], bool]) -> bool:
    """Signal `pid` through a pidfd, which is checked after opening so that the pid cannot be reused in between."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        if not still_ours():
            return False
        signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(descriptor)
    return True
