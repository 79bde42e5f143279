"""Preview programs on an exported state, in a twin of the state's account, and judge the planned changes."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
from pathlib import Path

from rich.console import Console

from spec import stack_file, stack_names
from spec.failure import NOT_TRIED, Failure
from spec.files import write_whole
from twin.engine import layout, stack_files
from twin.engine.engine import PROJECT, Engine
from twin.host.home import REPOSITORY, TwinHome
from twin.plugins.kubeconfig import parse_kubeconfig
from twin.rehearse import previewed, state
from twin.rehearse.judgement import Rehearsal
from twin.rehearse.previewed import Previewed
from twin.rehearse.state import State
from twin.services import scratch
from twin.services.servers import Servers

_REGION = "aws:region"
_NETWORK = f"{PROJECT}:network"
_ZONES_BY_NUMBER = (
    "the stack file has network.zones as a number, which means the zones that moto offers here, and those of EC2 in "
    "the account: if the change is not meant to move them, list the account's by name and rehearse again"
)


class AnotherRegion(Failure):
    """The stack file and the state are in different regions, so they cannot be compared."""

    exit_code = NOT_TRIED


def check(found: State) -> Path:
    """Return the stack file of a state's stack. Raises NoSuchStack or AnotherRegion."""
    tracked = stack_names.file_of(found.stack, REPOSITORY)
    region = stack_files.read(tracked).get(_REGION)
    if region not in (None, found.region):
        raise AnotherRegion(f"{tracked}: {_REGION} is {region}, and the state is of {found.region}; they must be the same")
    return tracked


def judge(home: TwinHome, found: State, revision: str | None, progress: Console) -> tuple[Previewed, Rehearsal | None]:
    """Return the preview of the present program on a state, and the judgement of a revision's program if one is given.

    Raises what `check` raises, UnknownRevision, and EngineError if the engine prints nothing.
    """
    tracked = check(found)
    with scratch.account(home, found.account, progress) as servers:
        progress.print(f"previewing {found.stack} on {len(found.resources)} resources of its state ...", markup=False)
        engine = servers.engine()
        _import(engine, servers, found)
        made, before = _previewed(engine, found), None
        if revision is not None:
            progress.print(f"previewing {found.stack} as of {revision} on the same ...", markup=False)
            before = _previewed(scratch.of_revision(servers, revision).engine(), found).judged
    judged = made.judged
    if judged.moves_zones and _zones_are_a_number(tracked):
        made = dataclasses.replace(made, judged=dataclasses.replace(judged, notes=(*judged.notes, _ZONES_BY_NUMBER)))
    return made, before


def _previewed(engine: Engine, found: State) -> Previewed:
    return previewed.judge(engine, found.stack, found.hidden, found.retained, _notes(found))


def _import(engine: Engine, servers: Servers, found: State) -> None:
    engine.read(found.stack, ["stack", "ls", "--json"])  # creates the stack, and the salt of its file
    merged = engine.home.path / "project" / "stacks" / f"Pulumi.{found.stack}.yaml"
    salt = stack_file.read(merged.read_bytes()).rest["encryptionsalt"]
    providers = {name: importlib.metadata.version(package) for name, package in layout.PROVIDERS.items()}
    kubeconfig = json.dumps(parse_kubeconfig(str(servers.kubeconfig)), sort_keys=True)
    exported = engine.home.temporary / "state.json"
    exported.parent.mkdir(parents=True, exist_ok=True)
    write_whole(exported, json.dumps(state.importable(found, providers, kubeconfig, salt)).encode())
    engine.read(found.stack, ["stack", "import", "--file", str(exported)])


def _zones_are_a_number(tracked: Path) -> bool:
    network = stack_file.decoded(stack_files.read(tracked).get(_NETWORK))
    return isinstance((network or {}).get("zones"), int)


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
