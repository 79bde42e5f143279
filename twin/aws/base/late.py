"""Delayed effects: AWS's services learn of each other's changes some time later (faults.py)."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from twin.aws import faults
from twin.aws.base import records
from twin.aws.base.clients import Clients

_POLL_SECONDS = 0.2


def seconds(clients: Clients, what: str) -> float:
    """Return the delay for this kind of change, in seconds."""
    return faults.delays(records.text(clients, faults.DELAYS)).get(what, 0.0)


def left(clients: Clients, what: str, changed: datetime) -> float:
    """Return the seconds until a change made at ``changed`` has its effect; 0 if it already has."""
    return max(0.0, seconds(clients, what) - (datetime.now(UTC) - changed).total_seconds())


def wait(clients: Clients, what: str, changed: datetime) -> None:
    """Wait until a change made at ``changed`` has its effect, as the provider does with its retries."""
    while left(clients, what, changed) > 0:
        time.sleep(_POLL_SECONDS)
