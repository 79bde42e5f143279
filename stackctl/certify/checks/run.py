"""Check claims about the run itself: preflight, `up`, and the teardown."""

from __future__ import annotations

from spec.names import DEPLOY_ROLE
from stackctl.certify.outcome import Outcome, agree, differ, not_tried
from stackctl.certify.subject import FIRST_INFERENCE, TEARDOWN, UP, Subject
from stackctl.preflight.checks.check import Status
from stackctl.preflight.command import summary


def nothing_has_drifted(subject: Subject) -> Outcome:
    """Compare each resource in AWS and the cluster with the program."""
    if UP in subject.trouble:
        return differ(f"`pulumi up` failed: {subject.trouble[UP]}")
    drift = subject.drift()
    made = sum(resource.custom for resource in subject.resources)
    return differ(drift) if drift else agree(f"{made} resources were made; read again twice, none has changed")


def deploy_role_suffices(subject: Subject) -> Outcome:
    """Check that the first `up` succeeded with the workflows' role.

    This includes the creation of KMS keys with tags and aliases.
    """
    kind, *role = subject.caller.arn.split(":")[5].split("/")
    if kind != "assumed-role" or not role[0].startswith(DEPLOY_ROLE):
        return not_tried(f"the run is not {DEPLOY_ROLE}'s: assume that role, and run certify again")
    if UP in subject.trouble:
        return differ(f"`pulumi up` as {role[0]} failed: {subject.trouble[UP]}")
    return agree(f"`pulumi up` as {role[0]} succeeded at the first try")


def preflight_was_right(subject: Subject) -> Outcome:
    """Compare preflight's findings with the result of `up`."""
    failed = [row.finding.message for row in subject.found if row.finding.status is Status.FAIL]
    said = f"preflight said: {summary(subject.found)}"
    if not subject.found:
        return not_tried("preflight found nothing to look at")
    if UP in subject.trouble:
        return agree(said, "`pulumi up` failed") if failed else differ(said, f"`pulumi up` failed: {subject.trouble[UP]}")
    return differ(said, *failed, "`pulumi up` did not fail") if failed else agree(said, "`pulumi up` did not fail")


def nothing_is_left(subject: Subject) -> Outcome:
    """Report the result of the teardown, and the resources that AWS still has."""
    if TEARDOWN in subject.trouble:
        return differ(f"the teardown failed: {subject.trouble[TEARDOWN]}")
    if subject.left is None:
        return not_tried("there was no teardown")
    if subject.left:
        return differ(*(f"AWS still has {found.kind} {found.id}" for found in subject.left))
    return agree("the search of `stackctl orphans` found nothing of the stack")


def from_nothing_to_an_answer_and_back(subject: Subject) -> Outcome:
    """Check that `up`, the first inference and the teardown succeeded.

    `make state` and `init` ran before.
    """
    went_wrong = [f"{step}: {why}" for step, why in subject.trouble.items()]
    if went_wrong or subject.left:
        return differ(*went_wrong, *(f"AWS still has {found.kind} {found.id}" for found in subject.left or ()))
    return agree(f"{UP}, {FIRST_INFERENCE} and {TEARDOWN} went well: {subject.answer}")
