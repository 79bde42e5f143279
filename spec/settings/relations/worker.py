"""The workers and the models that they ask."""

from collections.abc import Iterator

from spec.problem import Problem
from spec.settings.relations.subject import Subject
from spec.settings.rule import rule


@rule
def _requests_have_their_time(subject: Subject) -> Iterator[Problem]:
    """Require a longest request of workers that is no shorter than a request of any model may be."""
    worker = subject.document.worker
    for name, model in (subject.document.models.serving if worker is not None else {}).items():
        stream = f", and a stream of {model.longest_stream_seconds} s" if model.longest_stream_seconds is not None else ""
        if worker is not None and worker.longest_request_seconds < model.longest_request_seconds:
            yield Problem(
                "worker.longestRequestSeconds",
                f"{worker.longest_request_seconds} s are less than the {model.longest_request_seconds} s that a request of "
                f"{name} may take (its time in the queue and its SLO of {model.slo_p95_ms} ms{stream}); give more",
            )
