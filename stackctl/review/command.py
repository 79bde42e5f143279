"""Run `stackctl review`: make reports, render them, judge them."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path

from spec import reading
from spec.failure import FAILED, NOT_TRIED, Failure
from spec.files import rewrite
from spec.reading import Unreadable
from stackctl.review import collect as collecting
from stackctl.review import document, redaction, replayed, report_files, verdict
from stackctl.review import preview as preview_of_the_engine
from stackctl.review.plan import Plan
from stackctl.review.report import Report


class WrongPreview(Failure):
    """A preview that is of another stack than the one named."""

    exit_code = NOT_TRIED


def collect(stack: str, preview: Path, against: str | None, replay: Path | None, output: Path | None) -> None:
    """Write the report of a stack as JSON. Raises Failure.

    `preview` is the engine's output, `-` standard input; `replay` is what `twin replay --against … --json` has printed.
    """
    given = reading.stream(sys.stdin.buffer, "standard input") if str(preview) == "-" else reading.file(preview)
    told = None
    try:
        text = reading.text(given)
        told, found = preview_of_the_engine.stack_of(text), preview_of_the_engine.read(text)
    except Unreadable as error:
        found = Plan((), errors=(f"the preview said nothing that can be read: {error}",))
    load = None
    if replay is not None:
        try:
            load = replayed.read(replay, stack)
        except Unreadable as error:
            found = dataclasses.replace(found, warnings=(*found.warnings, f"no load was replayed: {error}"))
    made = redaction.everywhere(collecting.report(stack, found, against, replay=load))
    if told not in (None, stack):
        raise WrongPreview(f"{preview} is a preview of the stack {told}, not of {stack}")
    _write(made.to_json(), output)


def render(reports: Sequence[Path], stacks: Sequence[str], title: str, name: str, output: Path | None) -> None:
    """Write the comment of reports as Markdown. Of `stacks` those without a report are told as failed. Raises Failure."""
    found = redaction.everywhere(tuple(report_files.read_for_comment(reports, stacks)))
    _write(document.render(found, title=title, name=name), output)


def gate(reports: Sequence[Path]) -> int:
    """Say why changes may not go on; return the exit code, FAILED when one may not. Raises NoReport."""
    bad = {made.stack: problems for made in report_files.read_all(reports) if (problems := verdict.objections(made.plan))}
    for stack, problems in bad.items():
        print(f"{stack}: {'; '.join(problems)}", file=sys.stderr)
    return FAILED if bad else 0


def unchanged(reports: Sequence[Path]) -> int:
    """Name the stacks with changes or failures; return the exit code, FAILED when there are some. Raises NoReport."""
    differing = [made.stack for made in report_files.read_all(reports) if verdict.changes_something(made)]
    if differing:
        print(f"changes or failures: {', '.join(differing)}", file=sys.stderr)
    return FAILED if differing else 0


def same(approved: Path, now: Path) -> int:
    """Name what differs from the approved preview; return the exit code, FAILED when something does. Raises NoReport."""
    before, after = _only(approved), _only(now)
    if before.stack != after.stack:
        raise WrongPreview(f"{now} is of the stack {after.stack}, and what was approved of {before.stack}")
    differences = verdict.departures(before, after)
    for line in differences:
        print(f"{after.stack}: {line}", file=sys.stderr)
    return FAILED if differences else 0


def _only(path: Path) -> Report:
    found = report_files.read_all([path])
    if len(found) > 1:
        raise WrongPreview(f"{path} has the reports of {', '.join(made.stack for made in found)}; name the file of one")
    return found[0]


def _write(text: str, output: Path | None) -> None:
    if output is None:
        sys.stdout.write(text)
    else:
        rewrite(output, text.encode())
