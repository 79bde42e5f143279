"""Measure a preview and an `up` by the number of models, pools and fleets, next to programs of the same size.

    python benchmarks/engine.py

benchmarks/engine.md describes the measurement and its record.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
import yaml
from pydantic import Field
from rich.console import Console

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.local_process import cpu_seconds  # noqa: E402
from benchmarks.measurement import RESULTS, Conditions, Record, conditions, write  # noqa: E402
from modelctl.tune import evidence  # noqa: E402
from spec import reading  # noqa: E402
from spec.settings import load  # noqa: E402
from spec.settings.digest import serving_digest  # noqa: E402
from twin.commands import preview  # noqa: E402
from twin.engine import layout  # noqa: E402
from twin.engine.engine import Engine, process_name  # noqa: E402
from twin.host import processes  # noqa: E402
from twin.host.home import TwinHome  # noqa: E402
from twin.plugins import awaiting, language_host  # noqa: E402
from twin.plugins.values import UNKNOWN  # noqa: E402
from twin.services import scratch  # noqa: E402

EMPTY = ROOT / "benchmarks" / "empty_program"
BARE = ROOT / "benchmarks" / "bare_program"
STACK = "measured"
_ENTRY = ("Pulumi.yaml", "__main__.py")
_PROGRAM = (*_ENTRY, "charts", "helm-values", "infra", "spec")
_LOOK_SECONDS = 0.1
_NOT_IN_A_KEY = re.compile(r"[^-._a-zA-Z0-9]")
"""Characters that a ConfigMap key must not contain."""
_PARTS = {
    "twin.plugins.language_host": "language host",
    str(language_host.EXECUTOR): "program",
    "pulumi.policy": "policies",
    **{f"twin.plugins.{provider}": f"plugin {provider}" for provider in layout.PROVIDERS},
}
"""The processes that `pulumi` starts, by parts of their command lines."""

Config = dict[str, Any]
State = dict[str, Any]
"""A resource, as `pulumi preview --json` has it."""
Kind = Literal["models", "pools", "fleets"]
Action = Literal["preview", "up"]

PREVIEWED: Mapping[Kind, tuple[int, ...]] = {"models": (1, 100, 500), "pools": (1, 50), "fleets": (1, 10)}
MADE: Mapping[Kind, tuple[int, ...]] = {"models": (1, 100)}
"""Also measured with `up`: it takes much longer, and grows with resources of any kind."""


class Cost(Record):
    """The cost of one engine run; `cpu_seconds` and `peak_mib` cover pulumi, the program, plugins and policies."""

    resources: int
    seconds: float
    cpu_seconds: float
    peak_mib: int
    cpu_seconds_by_part: dict[str, float] = Field(default_factory=dict)
    """A part may have several processes: the engine starts some plugins twice. Earlier records have only the sum."""


class Point(Record):
    """A stack with this many of a kind, a program with as many empty resources, and one with their content."""

    action: Action
    kind: Kind
    number: int
    stack: Cost
    empty: Cost
    bare: Cost | None = None
    """None in earlier records."""


class Report(Record):
    """A record."""

    kind: Literal["engine"] = "engine"
    started: datetime
    revision: str | None
    conditions: Conditions
    points: list[Point]


def models(number: int) -> Config:
    """Return prod with this many models, each with its own route and alerts."""
    config = _prod()
    section = config["triton-eks:models"]
    wants = {"device": "cpu", "sloP95Ms": 50, "expectedRate": 40, "peakRate": 120}
    section["serving"] = {f"model-{one:03}": dict(wants) for one in range(number)}
    return _released(config)


def pools(number: int) -> Config:
    """Return prod with this many GPU pools. With more nodes in each, 50 pools would not fit into a VPC."""
    config = _prod()
    first = config["triton-eks:gpu"]["pools"][0]
    config["triton-eks:gpu"]["pools"] = [first, *({**first, "name": f"pool-{one:02}", "max": 8} for one in range(1, number))]
    return _released(config)


def fleets(number: int) -> Config:
    """Return prod with this many fleets, each with its own model and pool."""
    config = pools(number)
    names = [pool["name"] for pool in config["triton-eks:gpu"]["pools"]]
    config["triton-eks:models"]["serving"] = models(number)["triton-eks:models"]["serving"]
    config["triton-eks:fleets"] = [
        {"name": f"fleet-{one}", "models": [f"model-{one:03}"], "pool": pool} for one, pool in enumerate(names)
    ]
    return _released(config)


STACKS: Mapping[Kind, Callable[[int], Config]] = {"models": models, "pools": pools, "fleets": fleets}


def _prod() -> Config:
    config: Config = yaml.safe_load((ROOT / "stacks" / "Pulumi.prod.yaml").read_text())["config"]
    config["triton-eks:triton"]["rollout"] = "rolling"  # fleets and blue-green exclude each other
    return config


def _released(config: Config) -> Config:
    """Return the stack with a release created for it."""
    section = config["triton-eks:models"]
    release = section.pop("release")
    digest = serving_digest(load(config, STACK))
    served = dict.fromkeys(section["serving"], 1)
    section["release"] = {
        **release,
        "asks": {},
        "batches": {},
        "instances": {},
        "onCpu": [],
        "models": served,
        "serving": digest,
    }
    return config


@dataclass
class _Usage:
    """Processor time and peak memory of the engine's processes, by pid, while each was seen."""

    cpu: dict[int, float]
    mib: dict[int, int]
    part: dict[int, str]

    def cpu_by_part(self) -> dict[str, float]:
        """Return the processor time of each part, largest first."""
        parts: defaultdict[str, float] = defaultdict(float)
        for pid, seconds in self.cpu.items():
            parts[self.part.get(pid, "unknown")] += seconds
        return {part: round(parts[part], 2) for part in sorted(parts, key=parts.__getitem__, reverse=True)}


@contextlib.contextmanager
def _watched(home: TwinHome) -> Iterator[_Usage]:
    """Sample the engine's processes repeatedly; usage after the last sample is missing."""
    usage, done = _Usage({}, {}, {}), threading.Event()

    def look() -> None:
        while not done.wait(_LOOK_SECONDS):
            for pid in processes.marked(home, process_name(STACK)):
                with contextlib.suppress(OSError, ValueError, IndexError):
                    seconds = cpu_seconds(pid)
                    status = Path(f"/proc/{pid}/status").read_text()
                    if command := Path(f"/proc/{pid}/cmdline").read_text():  # empty for a terminated process
                        usage.part[pid] = part_of(command)
                    usage.cpu[pid] = seconds
                    usage.mib[pid] = int(status.partition("VmHWM:")[2].split()[0]) // 1024

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield usage
    finally:
        done.set()
        thread.join()


def part_of(command: str) -> str:
    """Return the engine part of a process by its command line."""
    return next((part for mark, part in _PARTS.items() if mark in command), "pulumi")


def measure(engine: Engine, action: Action) -> Cost:
    """Run the engine once on an empty stack. Raises EngineError."""
    with _watched(engine.home) as usage:
        began = time.monotonic()
        if action == "preview":
            made = preview.read(engine, STACK).summary
        else:
            engine.read(STACK, ["up", "--yes", "--skip-preview", "--non-interactive"], awaiting.WITHOUT)
        seconds = time.monotonic() - began
    if action == "up":
        made = dict(engine.last_update(STACK).changes)
    return Cost(
        resources=made["create"],
        seconds=round(seconds, 2),
        cpu_seconds=round(sum(usage.cpu.values()), 2),
        peak_mib=sum(usage.mib.values()),
        cpu_seconds_by_part=usage.cpu_by_part(),
    )


def of_stack(home: TwinHome, config: Config, actions: tuple[Action, ...]) -> tuple[list[Cost], list[State]]:
    """Measure this checkout's program on a separate twin without pods; also return the resources of its preview."""
    with _engine(home, ROOT, _PROGRAM, config) as engine:
        previewed = measure(engine, "preview")
        steps = reading.json_object(
            engine.read(STACK, ["preview", "--json", "--non-interactive"]), reading.DEEPEST_OF_THE_ENGINE
        )["steps"]
        others = [measure(engine, action) for action in actions if action != "preview"]
    return [previewed, *others], [step["newState"] for step in steps if step["newState"]["type"] != "pulumi:pulumi:Stack"]


def of_nothing(home: TwinHome, resources: int, actions: tuple[Action, ...]) -> list[Cost]:
    """Measure a program with this many empty resources, under the same policies."""
    config = {"aws:region": "us-west-2", "triton-eks:resources": resources}
    with _engine(home, EMPTY, _ENTRY, config) as engine:
        return [measure(engine, action) for action in actions]


def of_bare(home: TwinHome, config: Config, states: list[State], actions: tuple[Action, ...]) -> list[Cost]:
    """Measure a loop over these resources, under the same policies; an `up` creates ConfigMaps with their texts."""
    return [_of_file(home, config, states if action == "preview" else config_maps(states), action) for action in actions]


def _of_file(home: TwinHome, config: Config, states: list[State], action: Action) -> Cost:
    kept = {key: value for key, value in config.items() if key.startswith("aws:") or key == "triton-eks:environment"}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(states, file)
        file.flush()
        with _engine(home, BARE, _ENTRY, {**kept, "triton-eks:file": file.name}) as engine:
            return measure(engine, action)


def config_maps(states: list[State]) -> list[State]:
    """Return one ConfigMap per resource with the texts of its inputs; components stay, and providers come first.

    The resources themselves cannot be created from their inputs, because these hold AWS ids that only their own `up` gets.
    """
    providers = [state for state in states if state["type"].startswith("pulumi:providers:")]
    made: list[State] = []
    for number, state in enumerate(states):
        if state in providers:
            continue
        texts = enumerate(_texts(state.get("inputs", {}), ""))
        inputs = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"measured-{number}", "namespace": "default"},
            "data": {f"{place}{_NOT_IN_A_KEY.sub('_', key)}": text for place, (key, text) in texts},
        }
        kind, provider = "kubernetes:core/v1:ConfigMap", f"{providers[-1]['urn']}::"
        map_of = {"type": kind, "name": f"measured-{number}", "provider": provider, "inputs": inputs}
        made.append(state | map_of if state["custom"] else state)
    return [*providers, *made]


def _texts(value: Any, key: str) -> Iterator[tuple[str, str]]:
    """Yield each text and number in a value, with its key."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _texts(item, name)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, key)
    else:
        yield key, str(value).replace(UNKNOWN, "x" * len(UNKNOWN))


@contextlib.contextmanager
def _engine(home: TwinHome, source: Path, names: tuple[str, ...], config: Config) -> Iterator[Engine]:
    """Create a twin for a program, without pods, with this checkout's policies."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder)
        for name in names:
            (program / name).symlink_to(source / name)
        (program / "policies").symlink_to(ROOT / "policies")
        (program / "stacks").mkdir()
        (program / "stacks" / f"Pulumi.{STACK}.yaml").write_text(yaml.safe_dump({"config": config}))
        with scratch.twin(home, Console(stderr=True)) as servers:
            yield replace(servers.engine(), program=program)


def main(
    kinds: Annotated[list[str] | None, typer.Argument(help="models, pools, fleets; all of them without a word")] = None,
    largest: Annotated[int, typer.Option(min=1, help="Leave out what is larger.")] = 500,
    up: Annotated[bool, typer.Option(help="Make some, too, and not only preview them.")] = True,
    busy: Annotated[bool, typer.Option("--busy", help="Measure on a busy machine, and say so in the record.")] = False,
    results: Annotated[Path, typer.Option(help="Directory for the results.")] = RESULTS,
) -> None:
    """Preview and create stacks of growing size, and programs of the same size with empty resources or their content."""
    made, started, revision = conditions(allow_busy=busy), datetime.now(UTC), evidence.revision()
    points: list[Point] = []
    with tempfile.TemporaryDirectory() as folder:
        home = TwinHome(Path(folder) / "twin")
        for kind, number in [(kind, number) for kind, numbers in PREVIEWED.items() for number in numbers]:
            if (kinds and kind not in kinds) or number > largest:
                continue
            actions: tuple[Action, ...] = ("preview", "up") if up and number in MADE.get(kind, ()) else ("preview",)
            config = STACKS[kind](number)
            costs, states = of_stack(home, config, actions)
            # The engine counts the stack itself as one resource.
            empty = of_nothing(home, costs[0].resources - 1, actions)
            bare = of_bare(home, config, states, actions)
            for action, own, nothing, same in zip(actions, costs, empty, bare, strict=True):
                points.append(Point(action=action, kind=kind, number=number, stack=own, empty=nothing, bare=same))
                typer.echo(f"{action}, {number} {kind}: {own}; empty: {nothing}; bare: {same}")
    report = Report(started=started, revision=revision, conditions=made, points=points)
    typer.echo(f"written: {write(report, 'engine', started, results)}")


if __name__ == "__main__":
    typer.run(main)
