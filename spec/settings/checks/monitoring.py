"""Monitoring: alerts that reach somebody, and an exporter that is known and fixed."""

from collections.abc import Iterator

from spec.settings.checks import images
from spec.settings.checks.subject import Check, Subject
from spec.settings.problem import Problem


def _alerts_reach_somebody(subject: Subject) -> Iterator[Problem]:
    """Where prod is meant, its invariant says so."""
    monitoring = subject.document.monitoring
    if monitoring is not None and monitoring.alert_topic_arn is None and subject.stack != "prod":
        yield Problem(
            "monitoring.alertTopicArn",
            "is not given, so that alerts are seen only by who looks; give the ARN of an SNS topic",
        )


def _parity_image_is_pinned(subject: Subject) -> Iterator[Problem]:
    monitoring = subject.document.monitoring
    if monitoring is not None and monitoring.parity_image is not None:
        yield from images.of_ours("monitoring.parityImage", monitoring.parity_image, "modelctl", "modelctl")


CHECKS: tuple[Check, ...] = (_parity_image_is_pinned,)
WARNINGS: tuple[Check, ...] = (_alerts_reach_somebody,)
