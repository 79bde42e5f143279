"""The workers and the models that they ask: requests at a time, and the memory left for objects of the bucket."""

from collections.abc import Iterator

from spec.problem import Problem
from spec.queue_timing import BATCH
from spec.settings.model import Document
from spec.settings.relations.subject import Subject
from spec.settings.relations.triton import instances_per_pod
from spec.settings.release import ASSUMED_BATCH_SIZE
from spec.settings.rule import rule
from spec.settings.worker import Worker

_WITHOUT_REQUESTS_MIB = 200
"""Measured: 107 MiB with its clients, and up to 71 MiB while it reads one message of 1 MiB."""
_MESSAGE_MIB = 5
"""SQS's largest message and its tensors: `0,` is two bytes in a message, and eight as FP64."""
_COPIES = 4
"""Of an object: as it was read, as an array's bytes, in a gRPC message, and as that is sent."""
_LEAST_INPUT_MIB = 16


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


@rule
def _memory_holds_requests(subject: Subject) -> Iterator[Problem]:
    """Require memory of a worker for its requests, each as large as SQS's largest message, and for 16 MiB of objects."""
    worker = subject.document.worker
    if worker is None:
        return
    requests = concurrency(worker, subject.document)
    least = memory_mib(requests, _LEAST_INPUT_MIB)
    if worker.memory_mib < least:
        yield Problem(
            "worker.memoryMiB",
            f"{worker.memory_mib} MiB do not hold {requests} requests at a time and {_LEAST_INPUT_MIB} MiB of their "
            f"objects; give {least}, or fewer requests (worker.concurrency)",
        )


def concurrency(worker: Worker, document: Document) -> int:
    """Return the requests of a worker at a time: the number of the stack, or `2 * largest batch * instances of a pod`.

    Of the model for which that is the most: one batch is computed while the next one gathers, so that an instance never
    waits for the worker, and no more, because what waits longer waits better in the queue. A model of which neither the
    stack nor the release says its batch counts with the one that is assumed for the autoscaler too. A worker that is
    refused takes less by itself.
    """
    if worker.concurrency is not None:
        return worker.concurrency
    batches = [
        fleet.stack.models.largest_batch(name) * instances_per_pod(fleet.stack, name, model)
        for fleet in document.each_fleet
        for name, model in fleet.stack.models.serving.items()
    ]
    return min(1000, 2 * max(batches, default=ASSUMED_BATCH_SIZE))


def memory_mib(requests: int, objects_mib: int) -> int:
    """Return the memory of a worker with so many requests at a time and a batch that waits, and objects of so many MiB."""
    return _WITHOUT_REQUESTS_MIB + _MESSAGE_MIB * (requests + BATCH) + _COPIES * objects_mib


def input_mib(worker: Worker, document: Document) -> int:
    """Return the MiB of objects that a worker may read at a time."""
    return (worker.memory_mib - memory_mib(concurrency(worker, document), 0)) // _COPIES
