"""Run `stackctl review collect` and `render`: write reports, and a comment from reports."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path

from spec import reading
from spec.files import rewrite
from spec.reading import Unreadable
from stackctl.review import collect as collecting
from stackctl.review import document, redaction, report
from stackctl.review import preview as preview_of_the_engine
from stackctl.review.plan import Plan
from stackctl.review.verdict import WrongPreview


def collect(stack: str, preview: Path, against: str | None, replays: Sequence[Path], output: Path | None) -> None:
    """Write the report of a stack as JSON.

    `preview` is a file with the engine's output, or `-` for standard input. Each file of `replays` has the output of
    `twin replay --against … --json` for one trace. Raises Failure.
    """
    given = reading.stream(sys.stdin.buffer, "standard input") if str(preview) == "-" else reading.file(preview)
    told = None
    try:
        text = reading.text(given)
        told, found = preview_of_the_engine.stack_of(text), preview_of_the_engine.read(text)
    except Unreadable as error:
        found = Plan((), errors=(f"the preview said nothing that can be read: {error}",))
    loads, problems = [], []
    for file in replays:
        try:
            load = collecting.read_replay(file, stack)
        except Unreadable as error:
            problems.append(str(error))
        else:
            loads += [load] if load is not None else []
    if problems:
        warning = f"of {len(replays)} loads {len(problems)} were not replayed: {'; '.join(problems)}"
        found = dataclasses.replace(found, warnings=(*found.warnings, warning))
    made = redaction.everywhere(collecting.report(stack, found, against, replays=tuple(loads)))
    if told not in (None, stack):
        raise WrongPreview(f"{preview} is a preview of the stack {told}, not of {stack}")
    _write(made.to_json(), output)


def render(reports: Sequence[Path], stacks: Sequence[str], title: str, name: str, output: Path | None) -> None:
    """Write the comment of reports as Markdown.

    Stacks of `stacks` without a report appear as failed. Raises Failure.
    """
    found = redaction.everywhere(tuple(report.read_for_comment(reports, stacks)))
    _write(document.render(found, title=title, name=name), output)


def _write(text: str, output: Path | None) -> None:
    if output is None:
        sys.stdout.write(text)
    else:
        rewrite(output, text.encode())
