"""Make a change on a separate twin, under load: run the program of a revision first, then this checkout's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console

from spec.failure import NOT_TRIED, Failure
from spec.problem import SettingsError
from spec.reading import Unreadable
from spec.settings import source
from twin.charts import registry
from twin.commands import inference, up
from twin.engine import stack_files
from twin.host.home import TwinHome
from twin.load import requests
from twin.load.command import parts_of
from twin.rehearse import changing, load, pods, previewed
from twin.rehearse.judgement import Rehearsal
from twin.rehearse.measured import Measured
from twin.services import release_sources, scratch
from twin.services.servers import Servers


class OtherStackFile(Failure):
    """This checkout cannot read the revision's stack file, so it cannot bring its stack up."""

    exit_code = NOT_TRIED


def check(revision: str) -> None:
    """Raise UnknownRevision, OtherStackFile or NotBuilt unless the program of a revision can be brought up here."""
    scratch.check(revision, (stack_files.STACK,))
    try:
        source.load_content(scratch.stack_file(revision, stack_files.STACK), stack_files.tracked_file(stack_files.STACK))
    except (SettingsError, Unreadable) as error:
        raise OtherStackFile(
            f"{revision}: this checkout reads stack files otherwise, and cannot bring {stack_files.STACK} up from there; "
            f"give a later one\n{error}"
        ) from None
    release_sources.check()


def make(home: TwinHome, revision: str, wanted: int, progress: Console) -> tuple[Rehearsal, Measured | None]:
    """Change a twin from a revision to this checkout; return the judged preview and the measured effect on requests.

    The latter is None if the engine refuses the change, which is then not made. `wanted`: the number of Triton's pods to
    make the change on, if the stack files have fewer (`pods.pins`). Raises what `check` raises, and what `up.up` raises
    if the revision's program does not come up.
    """
    check(revision)

    def say(line: str) -> None:
        progress.print(line, markup=False)

    families = registry.families(stack_files.read(stack_files.tracked_file(stack_files.STACK)))
    with scratch.platform(home, families, progress) as started, changing.on_standard_error():
        own, before = started.home, scratch.of_revision(started, revision)
        pins = pods.pins((before.program, started.program), wanted)
        _pin(own, pins[0])
        say(f"bringing {stack_files.STACK} up as of {revision} ...")
        up.up(own, before, say)
        parts = parts_of(own, inference.MODEL, before.program)
        model = requests.model_of(release_sources.directory(own), inference.MODEL)
        _pin(own, pins[1])
        servers = Servers.running(own)  # its account is no longer new
        engine = servers.engine()
        up.release_and_pin(own, servers, str(engine.outputs(stack_files.STACK)["modelBucket"]))
        retained = [one["urn"] for one in engine.resources(stack_files.STACK) if one.get("retainOnDelete")]
        say("previewing the change ...")
        judged = previewed.judge(engine, stack_files.STACK, {}, retained).judged
        if judged.errors:
            return judged, None
        say(f"making the change, with {load.RATE:g} requests/s to {model.name} ...")
        return judged, changing.under_load(servers, stack_files.STACK, model, parts, lambda: up.up(own, servers, say))


def _pin(home: TwinHome, keys: Mapping[str, Any]) -> None:
    for key, value in keys.items():
        stack_files.pin(home, stack_files.STACK, key, value)
