"""Monitoring: alerts that reach somebody."""

from collections.abc import Iterator

from infra.settings.checks.subject import Check, Subject
from infra.settings.problem import Problem


def _alerts_reach_somebody(subject: Subject) -> Iterator[Problem]:
    """Where prod is meant, its invariant says so."""
    monitoring = subject.document.monitoring
    if monitoring is not None and monitoring.alert_topic_arn is None and subject.stack != "prod":
        yield Problem(
            "monitoring.alertTopicArn",
            "is not given, so that alerts are seen only by who looks; give the ARN of an SNS topic",
        )


WARNINGS: tuple[Check, ...] = (_alerts_reach_somebody,)
