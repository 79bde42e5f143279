"""Preview the present program with the real engine, and judge the planned changes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stackctl.review import preview as preview_of_the_engine
from twin.commands.preview import STREAM
from twin.engine.engine import Engine, EngineError
from twin.plugins import differences
from twin.rehearse import judgement
from twin.rehearse.judgement import Rehearsal


@dataclass(frozen=True)
class Previewed:
    """A preview. `inputs`: before and after, of each resource, changed or not, as returned by `judgement.states`."""

    judged: Rehearsal
    inputs: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]]


def judge(
    engine: Engine,
    stack: str,
    hidden: Mapping[str, Sequence[differences.Path]],
    retained: Collection[str],
    notes: Sequence[str] = (),
) -> Previewed:
    """Return the preview of a stack and its judgement; the other arguments go to `judgement.judge`.

    Raises EngineError if the engine prints nothing.
    """
    events = _events(engine, stack)
    plan, inputs = preview_of_the_engine.read(events), judgement.states(events)
    return Previewed(judgement.judge(plan, inputs, hidden, retained, notes), inputs)


def _events(engine: Engine, stack: str) -> str:
    try:
        return engine.read(stack, ["preview", "--json", "--non-interactive"], STREAM)
    except EngineError as error:
        if not error.output.strip():
            raise
        return error.output
