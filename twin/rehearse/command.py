"""Run `twin rehearse`, in a twin that lives for this alone: the present program on the exported state of a real stack, or
after that of another revision.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import itertools
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from console import terminal
from spec import stack_file, stack_names
from spec.failure import FAILED, NOT_TRIED, Failure
from spec.files import write_whole
from twin.commands.inference import MODEL
from twin.engine import layout, stack_files
from twin.engine.engine import PROJECT, Engine
from twin.engine.stack_files import STACK
from twin.host.home import REPOSITORY, TwinHome
from twin.plugins.kubeconfig import parse_kubeconfig
from twin.rehearse import judgement, load, measured, not_measured, previewed, state, under_load
from twin.rehearse.judgement import Finding, Rehearsal
from twin.rehearse.state import State
from twin.services import scratch
from twin.services.servers import Servers

_REGION = "aws:region"
_NETWORK = f"{PROJECT}:network"
_ZONES_BY_NUMBER = (
    "the stack file has network.zones as a number, which means the zones that moto offers here, and those of EC2 in "
    "the account: if the change is not meant to move them, list the account's by name and rehearse again"
)


_NOT_MADE = "the change was not made, as the engine would not go on"


class AnotherRegion(Failure):
    """The stack file and the state are of different regions, so that nothing can be compared."""

    exit_code = NOT_TRIED


def rehearse(home: TwinHome, file: Path, *, as_json: bool, progress: Console, output: Console) -> int:
    """Print what the present program would do to the stack whose state is in `file`; return the exit code."""
    found = state.read(file)
    tracked = stack_names.file_of(found.stack, REPOSITORY)
    config = stack_files.read(tracked)
    region = config.get(_REGION)
    if region not in (None, found.region):
        raise AnotherRegion(f"{tracked}: {_REGION} is {region}, and the state is of {found.region}; they must be the same")
    with scratch.account(home, found.account, progress) as servers:
        progress.print(f"previewing {found.stack} on {len(found.resources)} resources of its state ...", markup=False)
        made = judge(servers, found)
    if made.moves_zones and isinstance((stack_file.decoded(config.get(_NETWORK)) or {}).get("zones"), int):
        made = dataclasses.replace(made, notes=(*made.notes, _ZONES_BY_NUMBER))
    why = not_measured.sentence(found)
    if as_json:
        own = {"measured": None, "not_measured": why}
        terminal.print_json({"stack": found.stack, "bad": made.bad, **dataclasses.asdict(made), **own})
    else:
        _show(found.stack, made, output)
        output.print(_nothing(why))
    return FAILED if made.bad else 0


def rehearse_made(home: TwinHome, revision: str, *, as_json: bool, progress: Console, output: Console) -> int:
    """Print what making the change from a git revision to this checkout did to `local`, under load; return the exit code."""
    made, seen = under_load.make(home, revision, progress)
    if as_json:
        told = None if seen is None else {**dataclasses.asdict(seen), "lost": seen.lost}
        own = {"measured": told, "not_measured": _NOT_MADE if told is None else None}
        terminal.print_json({"stack": STACK, "bad": made.bad, **dataclasses.asdict(made), **own})
    else:
        _show(STACK, made, output)
        for line in measured.lines(seen, made, load.RATE, MODEL) if seen is not None else (_nothing(_NOT_MADE),):
            output.print(line)
    return FAILED if made.bad or seen is None or seen.lost or seen.ended is not None else 0


def _nothing(why: str) -> str:
    return f"\nNothing was measured: {why}."


def judge(servers: Servers, found: State) -> Rehearsal:
    """Return what the preview of the present program on a state comes to. Raises EngineError where the engine is silent."""
    engine = servers.engine()
    _import(engine, servers, found)
    return previewed.judge(engine, found.stack, found.hidden, found.retained, _notes(found))


def _import(engine: Engine, servers: Servers, found: State) -> None:
    engine.read(found.stack, ["stack", "ls", "--json"])  # makes the stack, and the salt of its file
    merged = engine.home.path / "project" / "stacks" / f"Pulumi.{found.stack}.yaml"
    salt = stack_file.read(merged.read_bytes()).rest["encryptionsalt"]
    providers = {name: importlib.metadata.version(package) for name, package in layout.PROVIDERS.items()}
    kubeconfig = json.dumps(parse_kubeconfig(str(servers.kubeconfig)), sort_keys=True)
    exported = engine.home.temporary / "state.json"
    exported.parent.mkdir(parents=True, exist_ok=True)
    write_whole(exported, json.dumps(state.importable(found, providers, kubeconfig, salt)).encode())
    engine.read(found.stack, ["stack", "import", "--file", str(exported)])


def _notes(found: State) -> tuple[str, ...]:
    notes = [
        f"{one}: was begun in the real stack and not finished, and nobody knows what became of it; `pulumi refresh` it first"
        for one in found.interrupted
    ]
    if found.hidden:
        notes.append(
            f"{len(found.hidden)} resources have encrypted inputs, which cannot be compared; those of an export with "
            "`--show-secrets` can, which holds them in plain text"
        )
    return tuple(notes)


def _show(stack: str, made: Rehearsal, output: Console) -> None:
    told = [finding for finding in made.findings if finding.effect != "none"]
    for effect in judgement.ORDER:
        of_it = [finding for finding in told if finding.effect == effect]
        if of_it:
            output.print(f"\n{effect.upper()}: {judgement.MEANINGS[effect]}")
        for _, alike in itertools.groupby(of_it, key=_heading):
            for line in _lines(list(alike)):
                output.print(line)
    for error in made.errors:
        output.print(f"\nthe engine would not go on: {error}")
    for note in made.notes:
        output.print(f"\nnote: {note}")
    counts = Counter(finding.action for finding in made.findings)
    sums = ", ".join(f"{counts[action]} {action}" for action in ("create", "update", "replace", "delete") if counts[action])
    output.print(f"\n{stack}: {sums or 'no change'}. {_verdict(made)}")


def _heading(finding: Finding) -> tuple[str | None, ...]:
    """Return by what knock-on changes are told together: those of one type and cause. Any other is told alone."""
    name = finding.name if finding.caused_by is None else None
    return finding.caused_by, finding.action, finding.type, finding.says, name


def _lines(alike: list[Finding]) -> Iterator[str]:
    one = alike[0]
    cause = f", with {one.caused_by.rpartition('::')[2]}" if one.caused_by else ""
    if len(alike) > 1:
        yield f"  {one.action} {len(alike)} of {one.type}{cause}: {', '.join(found.name for found in alike)}"
    else:
        yield (
            f"  {one.action} {one.name} ({one.type})"
            + (f" because of {', '.join(one.because)}" if one.because else "")
            + cause
        )
    if one.says:
        yield f"      {one.says}"


def _verdict(made: Rehearsal) -> str:
    if made.bad:
        return "Do not merge it as it is, unless what stands above is meant."
    return "Nothing is lost and nothing that serves is interrupted, as far as a preview can say."
