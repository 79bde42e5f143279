"""The workers and their models: concurrent requests, and the memory left for objects of the bucket."""

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
"""Measured: 107 MiB with the clients, and up to 71 MiB more while reading one message of 1 MiB."""
_MESSAGE_MIB = 5
"""The largest SQS message and its tensors: `0,` takes two bytes in a message and eight as FP64."""
_COPIES = 4
"""Copies of an object: the bytes read, the array, the gRPC message and its serialized form."""
_LEAST_INPUT_MIB = 16


@rule
def _requests_have_their_time(subject: Subject) -> Iterator[Problem]:
    """Require a longest request of the workers that is at least the longest request of each model."""
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
    """Require enough worker memory for its requests with SQS's largest messages, and for 16 MiB of objects."""
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
    """Return the concurrent requests of a worker: the configured number, or `2 * largest batch * instances of a pod`.

    The model with the largest product counts. One batch is computed while the next one gathers, so an instance never waits
    for the worker; more requests would only wait, and they wait better in the queue. If neither the stack nor the release
    has a model's batch size, the autoscaler's assumed batch size counts. A worker whose requests are rejected takes fewer by
    itself.
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
    """Return the MiB that a worker needs for its concurrent requests, one waiting batch and objects of this size."""
    return _WITHOUT_REQUESTS_MIB + _MESSAGE_MIB * (requests + BATCH) + _COPIES * objects_mib


def input_mib(worker: Worker, document: Document) -> int:
    """Return the MiB of objects that a worker may read at once."""
    return (worker.memory_mib - memory_mib(concurrency(worker, document), 0)) // _COPIES
