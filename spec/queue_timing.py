"""Times of the request queue: how long a worker polls, how long it takes to end, when another worker gets its message."""

from __future__ import annotations

import math

POLL_SECONDS = 20
"""A worker's long poll, the longest that SQS has: fewer empty receives."""
BATCH = 10
"""Messages that one receive may bring."""
_CLOSING_SECONDS = 10


def grace_seconds(longest_request_seconds: int) -> int:
    """From SIGTERM to the end of a worker: `poll + longest request + closing`.

    The poll that is under way is waited for (20 s: messages may be on their way to it), requests at Triton are finished,
    and the rest is given back.
    """
    return POLL_SECONDS + longest_request_seconds + _CLOSING_SECONDS


def visibility_timeout(longest_request_seconds: int, concurrency: int) -> int:
    """Seconds in which nobody else gets a message that a worker has: `wait + longest request + grace`.

    `wait = longest request * ceil(10 / concurrency)`: a worker may have a batch of ten in hand that waits for places at
    Triton. `longest request` has Triton's queue and the inference in it. `grace` is the end of a worker (`grace_seconds`).
    A worker extends it from half of it on, so that this is what a message waits for after a worker was killed, and never
    what limits the work (docs/facts/scaling.md#visibility-of-a-message).
    """
    wait = longest_request_seconds * math.ceil(BATCH / concurrency)
    return wait + longest_request_seconds + grace_seconds(longest_request_seconds)
