"""Times of the request queue: a worker's poll, its shutdown, and the visibility timeout of its messages."""

from __future__ import annotations

import math

POLL_SECONDS = 20
"""A worker's long poll. It is the longest that SQS allows, for fewer empty receives."""
BATCH = 10
"""The most messages of one receive."""
_CLOSING_SECONDS = 10


def grace_seconds(longest_request_seconds: int) -> int:
    """Return the seconds from SIGTERM to the exit of a worker: `poll + longest request + closing`.

    The worker finishes the current poll (20 s, because messages may be on their way) and the requests at Triton. It returns
    the other messages to the queue.
    """
    return POLL_SECONDS + longest_request_seconds + _CLOSING_SECONDS


def visibility_timeout(longest_request_seconds: int, concurrency: int) -> int:
    """Return the seconds for which a worker's message is invisible to others: `wait + longest request + grace`.

    `wait = longest request * ceil(10 / concurrency)`: a worker may hold a batch of ten that waits for free slots.
    `longest request` includes Triton's queue and the inference. `grace` is the worker's shutdown (`grace_seconds`).

    A worker extends the timeout from half of it on. So the timeout only delays the messages of a killed worker and never
    limits the work (docs/facts/scaling.md#visibility-of-a-message).
    """
    wait = longest_request_seconds * math.ceil(BATCH / concurrency)
    return wait + longest_request_seconds + grace_seconds(longest_request_seconds)
