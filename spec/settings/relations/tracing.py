"""Tracing and the gateway."""

from collections.abc import Iterator

from spec.problem import Problem
from spec.settings.relations.subject import Subject
from spec.settings.rule import warning


@warning
def _failures_need_the_gateway(subject: Subject) -> Iterator[Problem]:
    """Warn that without the gateway failed traces are sampled like others.

    Triton's spans do not record that an execution failed; Envoy's do.
    """
    tracing = subject.document.tracing
    if tracing is not None and subject.document.gateway is None and tracing.keep_percent < 100:
        yield Problem(
            "tracing",
            f"without the gateway no span says that a model failed, so that only {tracing.keep_percent} % of such traces "
            "are kept; add the section gateway, or keepPercent: 100",
        )
