"""The ways in which a message is not answered, and what follows from each."""

from __future__ import annotations

from typing import Literal

Reason = Literal["malformed", "rejected", "timeout", "failed", "unavailable"]
"""Why an attempt failed. `malformed`: the body can never be answered. `rejected`: Triton or the input says no (an unknown
model, a wrong shape, no such object). `timeout`: no answer within the request's seconds. `failed`: the model's own failure.
`unavailable`: Triton or AWS was away for as long as a message is kept."""


class AttemptFailed(Exception):
    """This attempt is over. The message comes back after a while, and after the queue's maxReceiveCount of them goes to the
    dead-letter queue.

    `final`: no later attempt could end otherwise, so that the remaining ones are used up at once. What is malformed is.
    """

    def __init__(self, reason: Reason, detail: str, *, final: bool = False) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason: Reason = reason
        self.detail = detail
        self.final = final or reason == "malformed"


class Unavailable(Exception):
    """Triton's queue is full, or Triton or AWS does not answer. It says nothing about the message, which is kept and tried
    again."""


class Stopping(Exception):
    """The worker ends before the message's turn has come: another one shall have it at once."""
