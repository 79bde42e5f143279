"""Tracing: spans go somewhere, and encrypted where that is outside the cluster."""

from collections.abc import Iterator

from spec.settings.checks.subject import Check, Subject
from spec.settings.problem import Problem


def _spans_go_to_one_place(subject: Subject) -> Iterator[Problem]:
    tracing = subject.document.tracing
    if tracing is None:
        return
    if tracing.exporter == "otlp" and tracing.endpoint is None:
        yield Problem("tracing.endpoint", "is missing; exporter otlp needs one, like https://otlp.example.com:4318")
    if tracing.exporter == "xray" and tracing.endpoint is not None:
        yield Problem("tracing.endpoint", "is of exporter otlp and exporter is xray; remove it, or use exporter: otlp")


def _spans_are_encrypted(subject: Subject) -> Iterator[Problem]:
    """Attributes of spans say what is asked of which model, and by whom."""
    tracing = subject.document.tracing
    if tracing is None or tracing.endpoint is None or subject.stack in ("local", "dev"):
        return
    if tracing.endpoint.startswith("http://"):
        yield Problem("tracing.endpoint", f"{tracing.endpoint} is not encrypted; use https in {subject.stack}")


def _failures_need_the_gateway(subject: Subject) -> Iterator[Problem]:
    """Triton's spans do not say that an execution failed; Envoy's do."""
    tracing = subject.document.tracing
    if tracing is not None and subject.document.gateway is None and tracing.keep_percent < 100:
        yield Problem(
            "tracing",
            f"without the gateway no span says that a model failed, so that only {tracing.keep_percent} % of such traces "
            "are kept; add the section gateway, or keepPercent: 100",
        )


CHECKS: tuple[Check, ...] = (_spans_go_to_one_place, _spans_are_encrypted)
WARNINGS: tuple[Check, ...] = (_failures_need_the_gateway,)
