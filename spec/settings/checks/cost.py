"""Costs: somebody is told."""

from collections.abc import Iterator

from spec.settings.checks.subject import Check, Subject
from spec.settings.problem import Problem

# AWS Budgets takes so many e-mail addresses for one notification.
_MOST_EMAILS = 10


def _somebody_is_told(subject: Subject) -> Iterator[Problem]:
    limits = subject.document.cost
    if limits is None:
        return
    if not limits.emails and limits.topic_arn is None:
        yield Problem("cost", "tells nobody; give emails, like [oncall@example.com], or topicArn, the ARN of an SNS topic")
    if len(limits.emails) > _MOST_EMAILS:
        yield Problem(
            "cost.emails", f"{len(limits.emails)} addresses are listed; AWS takes up to {_MOST_EMAILS}: use a topicArn"
        )
    repeated = sorted({address for address in limits.emails if limits.emails.count(address) > 1})
    for address in repeated:
        yield Problem("cost.emails", f"{address} is listed twice; remove one")


CHECKS: tuple[Check, ...] = (_somebody_is_told,)
