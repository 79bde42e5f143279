"""Run workflow steps that call GitHub: `python3 -m stackctl.review.workflow render|comment|issue|environment`.

Some steps have write permission and read data that untrusted code may have written. So nothing is installed for them, and
this module imports only Python's standard library (docs/security.md#the-workflows-that-may-write). The step's environment
has the arguments:

REVIEW_NAME         identifies the comment or the issue
REVIEW_TITLE        its heading
REVIEW_STACKS       stacks that must have a report, separated by blanks; a stack without one appears as failed
PULL_REQUEST        `comment`: its number; if it is not known:
HEAD, HEAD_SHA      `comment`: `OWNER:BRANCH` and its last commit; GitHub finds the pull request by them
REVIEW_LABEL        `issue`: label of a new issue, and of the open issues that are searched
LOOKED              `issue`: result of the job that wrote the reports; on `success` without changes the issue is closed
ENVIRONMENT         `environment`: fails unless GitHub lets only main deploy to it, and requires reviewers except for dev
GITHUB_REPOSITORY, GITHUB_TOKEN

The folder `reports` has the reports; `comment.md` has the text.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from console.program import guard
from spec import reading
from spec.failure import NOT_TRIED, Failure
from spec.files import rewrite
from stackctl.review import document, report, verdict
from stackctl.review.github import Repository

REPORTS = Path("reports")
TEXT = Path("comment.md")
_AGAIN_ALIKE = "AWS has again what main says."


class WrongStep(Failure):
    """A workflow step without a valid argument. The text names the problem."""

    exit_code = NOT_TRIED


def render() -> None:
    """Write the text of all reports to `TEXT`. Raises Failure."""
    stacks = _variable("REVIEW_STACKS").split()
    found = report.read_for_comment([REPORTS] if REPORTS.exists() else [], stacks)
    text = document.render(found, title=_variable("REVIEW_TITLE"), name=_variable("REVIEW_NAME"))
    rewrite(TEXT, text.encode())


def comment() -> None:
    """Write `TEXT` as a comment of a pull request, or replace the existing comment. Raises Failure."""
    repository = Repository.from_environment()
    text, marker = reading.text_file(TEXT), document.marker(_variable("REVIEW_NAME"))
    print(repository.comment(_pull_request(repository), marker, text))


def issue() -> None:
    """Open or edit the issue with `TEXT`, or close it without changes.

    Raises Failure.
    """
    repository, label = Repository.from_environment(), _variable("REVIEW_LABEL")
    marker = document.marker(_variable("REVIEW_NAME"))
    if os.environ.get("LOOKED") == "success" and not _some_change():
        print(repository.close_issue(marker, label, _AGAIN_ALIKE) or "there is no open issue")
    else:
        print(repository.issue(marker, _variable("REVIEW_TITLE"), reading.text_file(TEXT), label))


def environment() -> None:
    """Raise Failure unless GitHub protects the environment that the jobs deploy to."""
    name = _variable("ENVIRONMENT")
    lacking = Repository.from_environment().unprotected(name, "main", reviewed=name != "dev")
    if lacking:
        raise Failure("\n".join(lacking))


def _pull_request(repository: Repository) -> int:
    given = os.environ.get("PULL_REQUEST", "")
    if given:
        if not (given.isascii() and given.isdecimal()):
            raise WrongStep(f"PULL_REQUEST is {given!r}, which is no number")
        return int(given)
    head, commit = _variable("HEAD"), _variable("HEAD_SHA")
    number = repository.pull_request(head, commit)
    if number is None:
        raise Failure(f"no open pull request of {head} has {commit} as its head")
    return number


def _some_change() -> bool:
    return any(verdict.changes_something(made) for made in report.read_all([REPORTS]))


def _variable(name: str) -> str:
    value = os.environ.get(name, "")
    if not value.strip():
        raise WrongStep(f"the step does not set {name}")
    return value


def main(words: Sequence[str]) -> int:
    """Run the step that the words name; return the exit code. Failures go to standard error."""
    return guard("stackctl", lambda: _step(words)())


def _step(words: Sequence[str]) -> Callable[[], None]:
    steps = {"render": render, "comment": comment, "issue": issue, "environment": environment}
    if len(words) != 1 or words[0] not in steps:
        raise WrongStep(f"name one step: {', '.join(steps)}")
    return steps[words[0]]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
