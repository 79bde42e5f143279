"""The requests that a worker has at a time, and the memory that they leave for inputs from the bucket."""

from __future__ import annotations

from spec.queue_timing import BATCH
from spec.scaling.signal import instances_per_pod
from spec.settings.model import Document
from spec.settings.release import ASSUMED_BATCH_SIZE
from spec.settings.worker import Worker

_WITHOUT_REQUESTS_MIB = 200
"""Measured: 107 MiB with its clients, and up to 71 MiB while it reads one message of 1 MiB."""
_MESSAGE_MIB = 5
"""SQS's largest message and its tensors: `0,` is two bytes in a message, and eight as FP64."""
_COPIES = 4
"""Of an object: as it was read, as an array's bytes, in a gRPC message, and as that is sent."""


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
