"""Run `twin rehearse`.

Judge the present program on the exported state of a real stack. Then make the change under load and print the result.
The change is made on the serving part of the state, or on `local` as of a git revision.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console

from console import terminal
from spec.failure import FAILED
from twin.commands.inference import MODEL
from twin.engine.stack_files import STACK
from twin.host.home import TwinHome
from twin.rehearse import (
    compared,
    judgement,
    load,
    measured,
    on_state,
    part,
    part_told,
    part_under_load,
    serving,
    state,
    under_load,
)
from twin.rehearse.judgement import Finding, Rehearsal
from twin.rehearse.measured import Measured
from twin.rehearse.part import NotMade
from twin.rehearse.previewed import Previewed
from twin.rehearse.state import State
from twin.services import prerequisites, scratch

_NOT_MADE = "the change was not made, as the engine would not go on"
_ON_LOCAL = "with `--from`, a twin of `{}` is changed in the place of what serves in the state"


def rehearse(home: TwinHome, file: Path, since: str | None, *, as_json: bool, progress: Console, output: Console) -> int:
    """Print what the present program would do to the stack whose state is in `file`; return the exit code.

    Also print the effect of the change on requests. The change is made on the servers of the state or, with a git revision
    `since`, on `local` as of that revision. Without JSON, the judgement of the state is printed before the change begins.
    """
    found = state.read(file)
    on_state.check(found)
    if since is not None:
        scratch.check(since, (found.stack,))
        under_load.check(since)
    seen, before = on_state.judge(home, found, since, progress)
    if not as_json:
        if since is not None:
            output.print(f"THE STATE of {found.stack}, judged:")
        _show(found.stack, seen.judged, output)
    if since is None or before is None:
        return _rehearse_part(home, found, seen, as_json=as_json, progress=progress, output=output)
    made, why = seen.judged, _ON_LOCAL.format(STACK)
    if not as_json:
        output.print(_nothing(why))
    local, counted = under_load.make(home, since, serving.least_pods(found), progress)
    beside = compared.compare(made, before, local, counted)
    if as_json:
        own = _document(STACK, local, counted, _NOT_MADE if counted is None else None)
        parts = {"serving": None, "under_load": own, "compared": beside.document()}
        terminal.print_json({**_document(found.stack, made, None, why), **parts})
    else:
        output.print(f"\nTHE CHANGE from {since}, made on a twin of {STACK}:")
        _show_made(local, counted, output)
        for line in compared.lines(beside, since):
            output.print(line)
    return FAILED if made.bad or _went_wrong(local, counted) else 0


def _rehearse_part(
    home: TwinHome, found: State, seen: Previewed, *, as_json: bool, progress: Console, output: Console
) -> int:
    """Make the change on the servers of a state; return the exit code.

    Print the outcome of the requests, or why none was sent.
    """
    judged, what, counted, why = seen.judged, None, None, None
    try:
        if judged.errors:
            raise NotMade(_NOT_MADE)
        what = part.of(seen.inputs, judged.findings)
        counted = part_under_load.make(home, found, what, progress)
    except (NotMade, prerequisites.Lacking) as failure:
        why = f"no request was sent: {failure}"
    if as_json:
        told = None if what is None or counted is None else part_told.document(what)
        parts = {"serving": told, "under_load": None, "compared": None}
        terminal.print_json({**_document(found.stack, judged, counted, why), **parts})
    elif what is None or counted is None:
        output.print(_nothing(str(why)))
    else:
        output.print(f"\nTHE CHANGE of what serves in {found.stack}, made on a twin:")
        for line in part_told.lines(what, len(found.resources)):
            output.print(line)
        for line in measured.lines(counted, part_told.of_part(judged, what), load.RATE, MODEL):
            output.print(line)
        for line in part_told.only_judged(judged, what):
            output.print(line)
    return FAILED if judged.bad or (counted is not None and _is_lost(counted)) else 0


def rehearse_made(home: TwinHome, revision: str, *, as_json: bool, progress: Console, output: Console) -> int:
    """Change `local` from a git revision to this checkout under load; print the effects, return the exit code."""
    made, seen = under_load.make(home, revision, 1, progress)
    if as_json:
        terminal.print_json(_document(STACK, made, seen, _NOT_MADE if seen is None else None))
    else:
        _show_made(made, seen, output)
    return FAILED if _went_wrong(made, seen) else 0


def _went_wrong(made: Rehearsal, seen: Measured | None) -> bool:
    return made.bad or seen is None or _is_lost(seen)


def _is_lost(seen: Measured) -> bool:
    return bool(seen.lost) or seen.ended is not None


def _document(stack: str, made: Rehearsal, seen: Measured | None, why: str | None) -> dict[str, Any]:
    told = None if seen is None else {**dataclasses.asdict(seen), "lost": seen.lost}
    return {"stack": stack, "bad": made.bad, **dataclasses.asdict(made), "measured": told, "not_measured": why}


def _nothing(why: str) -> str:
    return f"\nNothing was measured: {why}."


def _show_made(made: Rehearsal, seen: Measured | None, output: Console) -> None:
    _show(STACK, made, output)
    for line in measured.lines(seen, made, load.RATE, MODEL) if seen is not None else (_nothing(_NOT_MADE),):
        output.print(line)


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
    """Return the key by which knock-on changes are grouped: their type and cause. Other findings each get their own key."""
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
