"""Create a stack, check the claims, and always delete the stack again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from botocore.exceptions import BotoCoreError, ClientError

from spec.failure import Failure
from stackctl.account.read_only import one_line
from stackctl.certify.checks import GONE, STANDING, Check
from stackctl.certify.claims import Claim
from stackctl.certify.outcome import Outcome, not_tried
from stackctl.certify.subject import FIRST_INFERENCE, TEARDOWN, UP, Subject
from stackctl.certify.untried import UNTRIED
from stackctl.destroy.state import Resource
from stackctl.orphans.search import Leftover

_NO_CHECK = "this version of stackctl has no check of it"


@dataclass(frozen=True)
class Steps:
    """The steps of a run that change something. Each raises Failure if it does not succeed.

    `up` gets its time limit in seconds. `first_inference` gets one too, and returns the answer. `state` returns the
    resources that `up` has created. `teardown` returns the resources that AWS still has.
    """

    up: Callable[[float], None]
    state: Callable[[], Sequence[Resource]]
    first_inference: Callable[[float], str]
    teardown: Callable[[], Sequence[Leftover]]


@dataclass(frozen=True)
class Result:
    """A claim and its result."""

    claim: Claim
    outcome: Outcome


def certify(
    claims: Sequence[Claim], subject: Subject, steps: Steps, seconds: float, say: Callable[[str], None]
) -> list[Result]:
    """Return the result of each claim.

    `seconds` limit everything except the teardown, which continues to its end. The teardown also runs after Ctrl-C, which
    is raised again afterwards.
    """
    deadline = time.monotonic() + seconds
    subject.time_left = lambda: deadline - time.monotonic()
    outcomes: dict[str, Outcome] = {}
    try:
        say("pulumi up")
        if _done(subject, UP, lambda: steps.up(deadline - time.monotonic())):
            subject.resources = steps.state()
            say("the first inference")
            _done(subject, FIRST_INFERENCE, lambda: _infer(subject, steps, deadline - time.monotonic()))
        say("the claims")
        outcomes.update(_tried(STANDING, subject, deadline))
    finally:
        say("taking the stack away")
        _done(subject, TEARDOWN, lambda: _take_away(subject, steps))
    outcomes.update(_tried(GONE, subject, None))
    return [Result(claim, outcomes.get(claim.text) or not_tried(UNTRIED.get(claim.text, _NO_CHECK))) for claim in claims]


def _done(subject: Subject, step: str, work: Callable[[], None]) -> bool:
    """Run a step and record its error. Return whether it succeeded."""
    try:
        work()
    except Failure as trouble:
        subject.trouble[step] = str(trouble)
    except (ClientError, BotoCoreError) as trouble:
        subject.trouble[step] = one_line(str(trouble))
    return step not in subject.trouble


def _infer(subject: Subject, steps: Steps, seconds: float) -> None:
    subject.answer = steps.first_inference(seconds)


def _take_away(subject: Subject, steps: Steps) -> None:
    subject.left = steps.teardown()


def _tried(checks: Mapping[str, Check], subject: Subject, deadline: float | None) -> Iterator[tuple[str, Outcome]]:
    for claim, check in checks.items():
        late = deadline is not None and time.monotonic() > deadline
        yield claim, not_tried("the time of the run was over") if late else _asked(check, subject)


def _asked(check: Check, subject: Subject) -> Outcome:
    try:
        return check(subject)
    except Failure as silent:
        return not_tried(str(silent))
    except (ClientError, BotoCoreError) as silent:
        return not_tried(f"AWS does not answer: {one_line(str(silent))}")
    except Exception as mistake:
        return not_tried(f"this check itself failed, please report it: {type(mistake).__name__}: {one_line(str(mistake))}")
