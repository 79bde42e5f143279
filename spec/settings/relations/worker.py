"""The workers and the models that they ask."""

from collections.abc import Iterator

from spec import worker_memory
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


_LEAST_INPUT_MIB = 16


@rule
def _memory_holds_requests(subject: Subject) -> Iterator[Problem]:
    """Require memory of a worker for its requests, each as large as SQS's largest message, and for 16 MiB of objects."""
    worker = subject.document.worker
    if worker is None:
        return
    requests = worker_memory.concurrency(worker, subject.document)
    least = worker_memory.memory_mib(requests, _LEAST_INPUT_MIB)
    if worker.memory_mib < least:
        yield Problem(
            "worker.memoryMiB",
            f"{worker.memory_mib} MiB do not hold {requests} requests at a time and {_LEAST_INPUT_MIB} MiB of their "
            f"objects; give {least}, or fewer requests (worker.concurrency)",
        )
