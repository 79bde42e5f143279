"""Runs a twin under load, with a rollout every three minutes and a fault every two, and looks for leaks.

    python -m tests.system.e2e.soak --minutes 30 [--record]

docs/faults.md describes it, and benchmarks/results_page.py makes a table of the newest record.
"""

from __future__ import annotations

import collections
import contextlib
import hashlib
import json
import random
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer

from benchmarks import measurement
from spec.files import rewrite
from spec.names import GATEWAY_NAMESPACE, TRITON_NAMESPACE
from tests.paths import ROOT
from tests.system.e2e.conftest import Twin
from tests.system.e2e.faulty import ALWAYS, WORKER_NAMESPACE, Site, until
from twin.host import processes
from twin.host.home import SHARED_MEMORY, TwinHome

FAULT_SECONDS, ROLLOUT_SECONDS, LOOK_SECONDS = 120.0, 180.0, 30.0
WELL_SECONDS = 300.0
MESSAGES = 20
"""The number of messages sent to the queue with each fault."""
ENDING_SECONDS = 60.0
"""The longest time for which processes may outlive their pod in the API."""
FEWEST_LOOKS = 5
"""The fewest looks in a quarter whose memory is compared; a run of ten minutes has them."""
KEEP_ALL = ("moto", "etcd")
"""Processes with unlimited memory: moto keeps every object and message, etcd keeps each change until it compacts."""
_UID = re.compile(r"^pod-([0-9a-f-]{36})-")


def _kill(*of: str) -> Callable[[Site], None]:
    def strike(site: Site) -> None:
        name = of[0] if len(of) == 1 else site.process_of(*of)
        killed = site.kill(name)
        until(lambda: site.started_again(killed), f"{name} to be started again", WELL_SECONDS)

    return strike


def _silence(site: Site) -> None:
    with site.stopped("moto"):
        time.sleep(10)


def _lose_a_machine(site: Site) -> None:
    site.lose(site.pods(TRITON_NAMESPACE)[0]["spec"]["nodeName"])


FAULTS: dict[str, Callable[[Site], None]] = {
    "Triton killed": _kill(TRITON_NAMESPACE, "triton"),
    "worker killed": _kill(WORKER_NAMESPACE, "worker"),
    "Envoy killed": _kill(GATEWAY_NAMESPACE, "envoy"),
    "Envoy Gateway killed": _kill("envoy-gateway"),
    "Prometheus killed": _kill("monitoring", "prometheus"),
    "KEDA's operator killed": _kill("keda-operator"),
    "KEDA's metrics server killed": _kill("keda-adapter"),
    "AWS silent for 10 s": _silence,
    "machine gone": _lose_a_machine,
}
"""The faults from which a twin recovers by itself."""


@dataclass(frozen=True)
class Usage:
    """The resources of all processes with the same name."""

    processes: int
    rss_mib: float
    descriptors: int
    threads: int


@dataclass(frozen=True)
class Look:
    """The resources of a twin at one time, `at` in seconds from the start."""

    at: float
    usage: dict[str, Usage]
    shared_memory: int
    temporary_files: int
    pod_directories: int
    without_pod: dict[str, int] = field(default_factory=dict)
    """Processes of pods that the API no longer has, by name."""


@dataclass
class Soak:
    """The faults and rollouts of a run, and the outcomes of its requests and messages."""

    seconds: float = 0.0
    done: list[tuple[float, str, float]] = field(default_factory=list)
    """Each with its time (seconds from the start), its name, and the seconds until the twin was healthy again."""
    looks: list[Look] = field(default_factory=list)
    requests: dict[str, int] = field(default_factory=dict)
    retried: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    messages: int = 0
    results: dict[str, int] = field(default_factory=dict)

    def leaks(self) -> list[str]:
        """Return the resources whose growth from the beginning to the end is more than the work explains."""
        first, last = self.looks[0], self.looks[-1]
        found = []
        for name in sorted(first.usage.keys() & last.usage.keys()):
            before, after = (_of_one(look.usage[name]) for look in (first, last))
            for what, slack in (("descriptors", 30), ("threads", 20)):
                if after[what] > 1.5 * before[what] + slack:
                    found.append(f"{name}: {before[what]:.0f} {what} became {after[what]:.0f}")
        found += self._fuller()
        found += [f"{name}: {number} processes of pods that are gone" for name, number in last.without_pod.items()]
        servers = {look.at: max(1, look.usage["triton"].processes) for look in (first, last)}
        if last.shared_memory / servers[last.at] > 1.5 * first.shared_memory / servers[first.at] + 2:
            found.append(f"/dev/shm: {first.shared_memory} files became {last.shared_memory}")
        for what in ("temporary_files", "pod_directories"):
            if getattr(last, what) > getattr(first, what) + 30:
                found.append(f"{what}: {getattr(first, what)} became {getattr(last, what)}")
        return found

    def _fuller(self) -> Iterator[str]:
        """Yield the processes with more memory in the last quarter than in the second. In the first they fill caches.

        In a quarter with few looks, one may be of a process that has just restarted after a kill; such runs prove nothing.
        """
        quarter = len(self.looks) // 4
        if quarter < FEWEST_LOOKS:
            return
        early, late = self.looks[-3 * quarter : -2 * quarter], self.looks[-quarter:]
        for name in sorted({name for look in late for name in look.usage} - {*KEEP_ALL}):
            before, after = (
                [one.rss_mib / one.processes for look in looks if (one := look.usage.get(name))] for looks in (early, late)
            )
            if before and median(after) > 1.15 * median(before) + 10:
                yield f"{name}: {median(before):.0f} MiB became {median(after):.0f}"


def _of_one(usage: Usage) -> dict[str, float]:
    return {key: value / usage.processes for key, value in asdict(usage).items()}


def look(site: Site, at: float) -> Look:
    """Return the present resources of the twin's processes, by name: pods by container, children by parent."""
    sums: dict[str, list[float]] = collections.defaultdict(lambda: [0.0] * 4)
    for pid, name in processes.marked(site.home).items():
        with contextlib.suppress(OSError):  # it has exited meanwhile
            status = dict(
                line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line
            )
            if "VmRSS" not in status:  # it has exited, and its parent has not reaped it yet
                continue
            found = (1, int(status["VmRSS"].split()[0]) / 1024, len(list(Path(f"/proc/{pid}/fd").iterdir())))
            group = _UID.sub("", name) if _UID.match(name) or name in ALWAYS else "other"
            sums[group] = [a + b for a, b in zip(sums[group], (*found, int(status["Threads"])), strict=True)]
    usage = {name: Usage(int(n), round(rss, 1), int(fds), int(threads)) for name, (n, rss, fds, threads) in sums.items()}
    return Look(
        round(at, 1),
        dict(sorted(usage.items())),
        len(list(Path(SHARED_MEMORY).glob(f"{site.home.shared_memory_prefix}*"))),
        sum(1 for path in site.home.temporary.rglob("*")),
        len(list(site.home.pods.iterdir())),
        _without_pod(site),
    )


def _without_pod(site: Site) -> dict[str, int]:
    """Return the number of processes that outlive their deleted pods for a while, by name."""
    strays: dict[int, str] = {}

    def none() -> bool:
        # In this order: a pod that appears meanwhile has no process among these yet.
        running = processes.marked(site.home)
        strays.clear()
        strays.update(strays_among(running, site.uids()))
        return not strays

    with contextlib.suppress(processes.DeadlinePassed):
        until(none, "the processes of pods that are gone to end", ENDING_SECONDS)
    return dict(sorted(collections.Counter(strays.values()).items()))


def strays_among(running: Mapping[int, str], uids: Collection[str]) -> dict[int, str]:
    """Return the processes (pid: name) of pods that are none of these pods: pid and container."""
    found = {pid: (name, _UID.match(name)) for pid, name in running.items()}
    return {pid: _UID.sub("", name) for pid, (name, of) in found.items() if of and of[1] not in uids}


def soak(site: Site, seconds: float, seed: int, say: Callable[[str], None], pace: float = 1.0) -> Soak:
    """Load the site for this long. Each fault and rollout starts when the one before it is over and the twin is healthy.

    `pace`: the factor by which they are more frequent than the constants.
    """
    made, chance = Soak(), random.Random(seed)  # noqa: S311 - the same faults in the same order
    faults = _in_turn(chance)
    releases = [_released(site, number) for number in range(2)]
    sent: set[str] = set()
    load = site.load()
    load.start()
    begun = time.monotonic()
    due = {"fault": FAULT_SECONDS / 2 / pace, "rollout": 30.0, "look": LOOK_SECONDS / 2}
    try:
        while (now := time.monotonic() - begun) < seconds:
            what = min(due, key=lambda name: due[name])
            if due[what] > now:
                time.sleep(min(due[what] - now, seconds - now, 1.0))
            elif what == "look":
                due[what] = now + LOOK_SECONDS
                made.looks.append(look(site, now))
            elif what == "fault":
                due[what] += FAULT_SECONDS / pace
                fault = next(faults)
                sent |= site.send(MESSAGES)
                FAULTS[fault](site)
                _noted(site, made, begun, now, fault, say)
            else:
                due[what] += ROLLOUT_SECONDS / pace
                releases.append(releases.pop(0))
                site.pinned().write_bytes(releases[0])
                up = site.pulumi_up()
                assert up.returncode == 0, up.stdout
                _noted(site, made, begun, now, "rollout", say)
        until(lambda: len(site.results(sent)) == len(sent), "each message to have its result", WELL_SECONDS)
        site.wait_until_well(WELL_SECONDS)
    finally:
        made.seconds = round(time.monotonic() - begun, 1)
        made.requests = asdict(load.end())
        made.retried, made.errors = load.retried, load.errors
    made.looks.append(look(site, made.seconds))
    made.messages = len(sent)
    made.results = dict(collections.Counter(f"written {times} times" for times in site.results(sent).values()))
    return made


def _in_turn(chance: random.Random) -> Iterator[str]:
    """Yield every fault once in a random order, then again."""
    while True:
        yield from chance.sample(list(FAULTS), len(FAULTS))


def _released(site: Site, number: int) -> bytes:
    """Release the models with a changed comment in one of them, and return the twin's pin for that release."""
    site.release("normalize/1/model.py", f"# {number}\n")
    return site.pinned().read_bytes()


def _noted(site: Site, made: Soak, begun: float, at: float, what: str, say: Callable[[str], None]) -> None:
    site.wait_until_well(WELL_SECONDS)
    took = time.monotonic() - begun - at
    made.done.append((round(at, 1), what, round(took, 1)))
    say(f"{at:6.0f} s: {what}; all well after {took:.0f} s")


def judged(made: Soak) -> list[str]:
    """Return losses and leaks; empty after a good run."""
    found = made.leaks()
    if made.requests["answered"] != made.requests["sent"]:
        found.append(f"{made.requests}: {made.errors}")
    if made.results != ({"written 1 times": made.messages} if made.messages else {}):
        found.append(f"of {made.messages} messages: {made.results}")
    return found


def write(made: Soak, about: Mapping[str, Any], started: datetime, results: Path) -> Path:
    """Write all figures of a run and its conditions as JSON, and return the file."""
    said = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True)
    kind = {"kind": "soak", "started": f"{started:%Y-%m-%dT%H:%M:%SZ}", "revision": said.stdout.strip()}
    text = json.dumps({**kind, **about, **asdict(made)}) + "\n"
    file = results / f"soak-{started:%Y-%m-%d}-{hashlib.sha256(text.encode()).hexdigest()[:8]}.json"
    rewrite(file, text.encode())
    return file


def main(
    minutes: Annotated[float, typer.Option(min=1, max=240, help="How long.")] = 30.0,
    seed: Annotated[int, typer.Option(help="Chooses the order of the faults.")] = 1,
    record: Annotated[bool, typer.Option("--record", help="Write all figures into benchmarks/results.")] = False,
) -> None:
    """Bring a twin up, soak it, and take it down. Exits with 1 after a loss or a leak."""
    command = f"python -m tests.system.e2e.soak --minutes {minutes:g} --seed {seed} --record"
    # No figure here is for an idle machine: the faults make it busy.
    conditions = measurement.conditions(allow_busy=True).model_copy(update={"command": command})
    with tempfile.TemporaryDirectory(prefix="soak-") as directory:
        home = TwinHome(Path(directory) / "home")
        started = datetime.now(UTC)
        try:
            made = soak(Site.bring_up(home), minutes * 60, seed, typer.echo)
        finally:
            Twin(home).down()
    wrong = judged(made)
    if record:
        typer.echo(write(made, {"seed": seed, "conditions": conditions.model_dump()}, started, measurement.RESULTS))
    typer.echo(f"{made.seconds:.0f} s: {made.requests}, {made.retried} tried again; {made.messages} messages")
    for name in made.looks[-1].usage:
        figures = [asdict(one.usage[name]) for one in (made.looks[0], made.looks[-1]) if name in one.usage]
        typer.echo(f"{name}: {' -> '.join(map(str, figures))}")
    for one in wrong:
        typer.echo(f"error: {one}", err=True)
    raise typer.Exit(1 if wrong else 0)


if __name__ == "__main__":
    typer.run(main)
