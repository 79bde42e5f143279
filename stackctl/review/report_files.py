"""Read the files of reports: strictly, to judge them, or so that an unreadable one becomes a part of the comment."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from spec import reading
from spec.failure import NOT_TRIED, Failure
from spec.reading import Unreadable
from stackctl.review import report
from stackctl.review.plan import Plan
from stackctl.review.report import Report

_NO_REPORT = "There is no report of this stack: its job ended before. The log of the run says why."
_NOT_READ = "The report of this stack cannot be read"
_OTHER_FORM = "Where a change gives reports another form, this comment is made by the base's program, which reads its own."


class NoReport(Failure):
    """A report is missing, or is none; the text says which, and how one is made."""

    exit_code = NOT_TRIED


def read_all(paths: Sequence[Path]) -> list[Report]:
    """Return the reports of these files and folders, of which there has to be one, by stack. Raises NoReport.

    Where there is none, nothing is known, and that is no good answer.
    """
    found = []
    for file in _files(paths):
        try:
            found.append(_read(file))
        except report.UnreadableReport as error:
            raise NoReport(f"{file} is no report of `stackctl review collect`: {error}") from None
    if not found:
        raise _none_in(paths)
    return sorted(found, key=lambda made: made.stack)


def read_for_comment(paths: Sequence[Path], stacks: Collection[str]) -> list[Report]:
    """Return the reports of these files and folders, and of `stacks` those that are missing, as failed, by stack.

    A report that cannot be read is one that says so: what a stranger wrote into one hides no other stack. Raises NoReport
    where there would be nothing to comment on.
    """
    found = [_readable(file) for file in _files(paths)]
    if not found and not stacks:
        raise _none_in(paths)
    missing = set(stacks) - {made.stack for made in found}
    found += [Report(stack, Plan((), errors=(_NO_REPORT,))) for stack in missing]
    return sorted(found, key=lambda made: made.stack)


def _none_in(paths: Sequence[Path]) -> NoReport:
    where = f"in {', '.join(map(str, paths))}" if paths else "given"
    how = "`python3 -m stackctl review collect STACK --preview FILE --output REPORT` makes one"
    return NoReport(f"there is no report {where}: {how}")


def _readable(file: Path) -> Report:
    try:
        return _read(file)
    except report.UnreadableReport as error:
        return Report(file.stem, Plan((), errors=(f"{_NOT_READ}: {error}\n{_OTHER_FORM}",)))


def _files(paths: Sequence[Path]) -> list[Path]:
    return [file for path in paths for file in (_below(path) if path.is_dir() else [path])]


def _below(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*.json") if file.is_file())


def _read(file: Path) -> Report:
    content = reading.file(file, report.MOST_BYTES)
    try:
        text = reading.text(content)
    except Unreadable as error:
        raise report.UnreadableReport(str(error)) from None
    return report.from_json(text)
