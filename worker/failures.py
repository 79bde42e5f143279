"""The ways in which a message can fail, and their consequences."""

from __future__ import annotations

from typing import Literal

Reason = Literal["malformed", "rejected", "timeout", "failed", "unavailable"]
"""Why an attempt failed.

`malformed`: the body can never be answered. `rejected`: Triton or the input refuses (an unknown model, a wrong shape, no
such object). `timeout`: no answer within the request's time limit. `failed`: the model's own failure. `unavailable`: Triton
or AWS was down for as long as a message is kept.
"""


class AttemptFailed(Exception):
    """This attempt has failed. The message comes back later; after the queue's maxReceiveCount it goes to the dead-letter
    queue.

    `final`: no later attempt could succeed, so the remaining ones are used up at once. `malformed` is always final.
    """

    def __init__(self, reason: Reason, detail: str, *, final: bool = False) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason: Reason = reason
        self.detail = detail
        self.final = final or reason == "malformed"


class Unavailable(Exception):
    """Triton's queue is full, or Triton or AWS does not respond.

    This says nothing about the message, which is kept and tried again.
    """


class Stopping(Exception):
    """The worker stops before the message's turn; another worker can take the message at once."""
