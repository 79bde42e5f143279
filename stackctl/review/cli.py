"""The command line: collect what is known of a stack, render the comment, write it to GitHub."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from spec.stack_names import EXIT_CODE, NoSuchStack
from stackctl.review import document, plan, report
from stackctl.review.github import GitHubError, Repository

EXPECTED = (GitHubError, plan.UnreadablePlan, report.UnreadableReport)
_NO_REPORT = "There is no report of this stack: its job ended before. The log of the run says why."

_NOT_READ = "The report of this stack cannot be read"
_OTHER_FORM = "Where a change gives reports another form, this comment is made by the base's program, which reads its own."
_NO_PACK = "no policy pack ran: preview with --policy-pack policies"
_NOT_TOLD = "which policy packs ran is not told: only the engine's events do (PULUMI_ENABLE_STREAMING_JSON_PREVIEW=true)"


class UsageError(RuntimeError):
    """Something that the caller has to do otherwise; the text says what."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; an expected failure is one message on standard error and code 1, or 2 for a stack name."""
    given = _parser().parse_args(arguments)
    try:
        result = given.run(given)
    except NoSuchStack as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_CODE
    except (*EXPECTED, UsageError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    return int(result or 0)


_DESCRIPTION = """What a change would do to each stack, as one comment for its reviewer.

A report is what is known of one stack, as JSON: `collect` makes it of the engine's preview, `render` makes the comment of
one or more of them, and `gate` and `unchanged` judge them by their exit code. The other commands ask GitHub, with
GITHUB_REPOSITORY and GITHUB_TOKEN."""
_EXAMPLE = """by hand:
  python3 -m twin preview prod --against main --events > events.json
  python3 -m stackctl.review collect prod --preview events.json --against main --output prod.json
  python3 -m stackctl.review render prod.json

exit codes: 0, 1 for a failure (of `gate` and `unchanged`: for their answer), 2 for a wrong command line
more: docs/pull-requests.md"""
_OUTPUT = "where to write it; without it, to standard output"
_NAME = "by which the comment is found again, to be edited instead of written anew (default: %(default)s)"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python3 -m stackctl.review",
        description=_DESCRIPTION,
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    collect = commands.add_parser("collect", help="make the report of one stack (needs the Python environment)")
    collect.add_argument("stack", nargs="?", default="", metavar="STACK", help="a stack of this checkout, like prod")
    collect.add_argument(
        "--preview",
        type=Path,
        required=True,
        metavar="FILE",
        help="what `twin preview --events` or `pulumi preview --json` printed; - is standard input",
    )
    collect.add_argument("--against", metavar="REV", help="the git revision that models, cost and quotas are compared with")
    collect.add_argument("--output", type=Path, metavar="FILE", help=_OUTPUT)
    collect.set_defaults(run=_collect)

    render = commands.add_parser("render", help="make the comment of reports, in Markdown")
    _takes_reports(render, nargs="*")
    render.add_argument(
        "--stacks",
        nargs="+",
        default=[],
        metavar="STACK",
        help="those that should have a report; one that has none is told as failed",
    )
    render.add_argument(
        "--title", default="What this change does", metavar="TEXT", help="the comment's heading (default: %(default)s)"
    )
    render.add_argument("--name", default="preview", help=_NAME)
    render.add_argument("--output", type=Path, metavar="FILE", help=_OUTPUT)
    render.set_defaults(run=_render)

    gate = commands.add_parser("gate", help="fail when a preview failed, a mandatory policy is not kept, or no pack ran")
    _takes_reports(gate)
    gate.set_defaults(run=_gate)

    unchanged = commands.add_parser("unchanged", help="fail when a report has a change or a failure")
    _takes_reports(unchanged)
    unchanged.set_defaults(run=_unchanged)

    comment = commands.add_parser("comment", help="write the comment of a pull request to GitHub, or edit it")
    comment.add_argument("--pull-request", type=int, required=True, metavar="NUMBER", help="that of the pull request")
    comment.add_argument("--name", default="preview", help=_NAME)
    comment.add_argument("body", type=Path, metavar="FILE", help="the comment, as `render` wrote it")
    comment.set_defaults(run=_comment)

    issue = commands.add_parser("issue", help="open an issue on GitHub, edit the open one, or close it")
    issue.add_argument("--name", required=True, help="by which the issue is found again")
    issue.add_argument("--title", default="", metavar="TEXT", help="of an issue that is opened")
    issue.add_argument(
        "--label", required=True, help="of an issue that is opened; an open one is looked for among its issues"
    )
    issue.add_argument("--close", action="store_true", help="close it, with FILE as its last comment")
    issue.add_argument("body", type=Path, metavar="FILE", help="the text of the issue, in Markdown")
    issue.set_defaults(run=_issue)

    find = commands.add_parser("pull-request", help="print the number of the open pull request of a branch at a commit")
    find.add_argument("--head", required=True, metavar="OWNER:BRANCH", help="the branch, with whose repository it is in")
    find.add_argument("--sha", required=True, metavar="COMMIT", help="the commit that the branch has to be at")
    find.set_defaults(run=_pull_request)
    return parser


def _takes_reports(command: argparse.ArgumentParser, nargs: str = "+") -> None:
    command.add_argument(
        "reports", type=Path, nargs=nargs, metavar="REPORT", help="a file that `collect` wrote, or a folder of such files"
    )


def _collect(given: argparse.Namespace) -> None:
    # Both imported here: what they need is not there where comments are written.
    import virtual_environment

    virtual_environment.enter("stackctl.review")
    from stackctl.review import collect

    text = sys.stdin.read() if str(given.preview) == "-" else given.preview.read_text(encoding="utf-8")
    try:
        found = plan.read(text)
    except plan.UnreadablePlan as error:
        found = plan.Plan((), errors=(f"the preview said nothing that can be read: {error}",))
    try:
        made = collect.report(given.stack, found, given.against)
    except collect.CollectFailed as error:
        raise UsageError(str(error)) from None
    if (told := plan.stack_of(text)) not in (None, given.stack):
        raise UsageError(f"{given.preview} is a preview of the stack {told}, not of {given.stack}")
    _write(made.to_json(), given.output)


def _render(given: argparse.Namespace) -> None:
    found = [_readable(file) for file in _files(given.reports)]
    if not found and not given.stacks:
        raise UsageError(_none_in(given.reports))
    missing = set(given.stacks) - {made.stack for made in found}
    found += [report.Report(stack, plan.Plan((), errors=(_NO_REPORT,))) for stack in missing]
    found.sort(key=lambda made: made.stack)
    _write(document.render(found, title=given.title, name=given.name), given.output)


def _comment(given: argparse.Namespace) -> None:
    body = given.body.read_text(encoding="utf-8")
    print(Repository.from_environment().comment(given.pull_request, document.marker(given.name), body))


def _issue(given: argparse.Namespace) -> None:
    body, repository = given.body.read_text(encoding="utf-8"), Repository.from_environment()
    marker = document.marker(given.name)
    if given.close:
        print(repository.close_issue(marker, given.label, body) or "there is no open issue")
    else:
        print(repository.issue(marker, given.title, body, given.label))


def _pull_request(given: argparse.Namespace) -> int:
    number = Repository.from_environment().pull_request(given.head, given.sha)
    if number is None:
        print(f"no open pull request of {given.head} has {given.sha} as its head", file=sys.stderr)
        return 1
    print(number)
    return 0


def _gate(given: argparse.Namespace) -> int:
    bad = 0
    for made in _some_reports(given.reports):
        problems = _problems(made.plan)
        if problems:
            bad = 1
            print(f"{made.stack}: {'; '.join(problems)}", file=sys.stderr)
    return bad


def _problems(found: plan.Plan) -> list[str]:
    """Why a change may not go on. Where no policy was asked, none is kept."""
    problems = ["the preview failed"] if found.errors else []
    mandatory = sum(violation.mandatory for violation in found.violations)
    if mandatory:
        problems.append("1 mandatory violation" if mandatory == 1 else f"{mandatory} mandatory violations")
    if not found.packs and not found.errors:
        problems.append(_NOT_TOLD if found.packs is None else _NO_PACK)
    return problems


def _unchanged(given: argparse.Namespace) -> int:
    differing = [made.stack for made in _some_reports(given.reports) if made.plan.steps or made.plan.errors]
    if differing:
        print(f"changes or failures: {', '.join(differing)}", file=sys.stderr)
    return 1 if differing else 0


def _some_reports(paths: Sequence[Path]) -> list[report.Report]:
    """The reports, of which there has to be one: where there is none, nothing is known, and that is no good answer."""
    found = _reports(paths)
    if not found:
        raise UsageError(_none_in(paths))
    return found


def _none_in(paths: Sequence[Path]) -> str:
    where = f"in {', '.join(map(str, paths))}" if paths else "given"
    return f"there is no report {where}: `python3 -m stackctl.review collect STACK --preview FILE --output REPORT` makes one"


def _reports(paths: Sequence[Path]) -> list[report.Report]:
    found = []
    for file in _files(paths):
        try:
            found.append(_read(file))
        except report.UnreadableReport as error:
            raise UsageError(f"{file} is no report of `python3 -m stackctl.review collect`: {error}") from None
    return sorted(found, key=lambda made: made.stack)


def _readable(file: Path) -> report.Report:
    """The report in a file, or one that says why there is none: what a stranger wrote into one hides no other stack."""
    try:
        return _read(file)
    except report.UnreadableReport as error:
        return report.Report(file.stem, plan.Plan((), errors=(f"{_NOT_READ}: {error}\n{_OTHER_FORM}",)))


def _files(paths: Sequence[Path]) -> list[Path]:
    return [file for path in paths for file in (_below(path) if path.is_dir() else [path])]


def _below(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*.json") if file.is_file())


def _read(file: Path) -> report.Report:
    try:
        return report.from_json(file.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise report.UnreadableReport(f"it is not text: {error}") from None


def _write(text: str, output: Path | None) -> None:
    if output is None:
        sys.stdout.write(text)
    else:
        output.write_text(text, encoding="utf-8")
