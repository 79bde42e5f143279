"""Run the steps of workflows that talk to GitHub: `python3 -m stackctl.review.workflow render|comment|issue|environment`.

Some run with the right to write, and read what a stranger's code may have written: so nothing is installed for them, and
all that this module imports is Python's standard library (docs/security.md#the-workflows-that-may-write). What they are to
do is said by the environment of the step:

REVIEW_NAME         by which the comment or the issue is found again
REVIEW_TITLE        its heading
REVIEW_STACKS       stacks that should have a report, separated by blanks; one that has none is told as failed
PULL_REQUEST        `comment`: the number; or, where it is not known,
HEAD, HEAD_SHA      `comment`: `OWNER:BRANCH`, and the commit that it has to be at: GitHub says which pull request that is
REVIEW_LABEL        `issue`: of an issue that is opened; an open one is looked for among its issues
LOOKED              `issue`: how the job ended that made the reports; `success` closes the issue where nothing has changed
ENVIRONMENT         `environment`: fails unless GitHub lets only main deploy to it, and others than dev with reviewers only
GITHUB_REPOSITORY, GITHUB_TOKEN

Reports are read from the folder `reports`, the text is in `comment.md`.
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
    """A step of a workflow does not say what is to be done; the text names what is missing."""

    exit_code = NOT_TRIED


def render() -> None:
    """Write the text of all reports to `TEXT`. Raises Failure."""
    stacks = _variable("REVIEW_STACKS").split()
    found = report.read_for_comment([REPORTS] if REPORTS.exists() else [], stacks)
    text = document.render(found, title=_variable("REVIEW_TITLE"), name=_variable("REVIEW_NAME"))
    rewrite(TEXT, text.encode())


def comment() -> None:
    """Write `TEXT` as the comment of a pull request, or in the place of the one that is there. Raises Failure."""
    repository = Repository.from_environment()
    text, marker = reading.text_file(TEXT), document.marker(_variable("REVIEW_NAME"))
    print(repository.comment(_pull_request(repository), marker, text))


def issue() -> None:
    """Open the issue with `TEXT`, edit the open one, or close it where nothing has changed any more. Raises Failure."""
    repository, label = Repository.from_environment(), _variable("REVIEW_LABEL")
    marker = document.marker(_variable("REVIEW_NAME"))
    if os.environ.get("LOOKED") == "success" and not _some_change():
        print(repository.close_issue(marker, label, _AGAIN_ALIKE) or "there is no open issue")
    else:
        print(repository.issue(marker, _variable("REVIEW_TITLE"), reading.text_file(TEXT), label))


def environment() -> None:
    """Raise Failure unless GitHub protects the environment whose jobs are about to deploy."""
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
    """Run the step that the words name; return the exit code. A failure is told on standard error."""
    return guard("stackctl", lambda: _step(words)())


def _step(words: Sequence[str]) -> Callable[[], None]:
    steps = {"render": render, "comment": comment, "issue": issue, "environment": environment}
    if len(words) != 1 or words[0] not in steps:
        raise WrongStep(f"name one step: {', '.join(steps)}")
    return steps[words[0]]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
