"""Have the real engine preview the present program, and judge what it intends."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from stackctl.review import preview as preview_of_the_engine
from twin.commands.preview import STREAM
from twin.engine.engine import Engine, EngineError
from twin.plugins import differences
from twin.rehearse import judgement
from twin.rehearse.judgement import Rehearsal


def judge(
    engine: Engine,
    stack: str,
    hidden: Mapping[str, Sequence[differences.Path]],
    retained: Collection[str],
    notes: Sequence[str] = (),
) -> Rehearsal:
    """Return what the preview of a stack comes to; the rest is for `judgement.judge`.

    Raises EngineError where the engine is silent.
    """
    events = _events(engine, stack)
    plan = preview_of_the_engine.read(events)
    return judgement.judge(plan, judgement.states(events), hidden, retained, notes)


def _events(engine: Engine, stack: str) -> str:
    try:
        return engine.read(stack, ["preview", "--json", "--non-interactive"], STREAM)
    except EngineError as error:
        if not error.output.strip():
            raise
        return error.output
