"""Run `stackctl review`: make reports, render them, judge them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from spec.failure import FAILED, NOT_TRIED, Failure
from spec.files import rewrite
from stackctl.review import collect as collecting
from stackctl.review import document, plan, report_files, verdict


class WrongPreview(Failure):
    """A preview that is of another stack than the one named."""

    exit_code = NOT_TRIED


def collect(stack: str, preview: Path, against: str | None, output: Path | None) -> None:
    """Write the report of a stack as JSON. `preview` is the engine's output, `-` standard input. Raises Failure."""
    text = sys.stdin.read() if str(preview) == "-" else preview.read_text(encoding="utf-8")
    try:
        found = plan.read(text)
    except plan.UnreadablePlan as error:
        found = plan.Plan((), errors=(f"the preview said nothing that can be read: {error}",))
    made = collecting.report(stack, found, against)
    if (told := plan.stack_of(text)) not in (None, stack):
        raise WrongPreview(f"{preview} is a preview of the stack {told}, not of {stack}")
    _write(made.to_json(), output)


def render(reports: Sequence[Path], stacks: Sequence[str], title: str, name: str, output: Path | None) -> None:
    """Write the comment of reports as Markdown. Of `stacks` those without a report are told as failed. Raises Failure."""
    found = report_files.read_for_comment(reports, stacks)
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


def _write(text: str, output: Path | None) -> None:
    if output is None:
        sys.stdout.write(text)
    else:
        rewrite(output, text.encode())
