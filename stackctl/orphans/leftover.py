"""A thing that is left, whose it is, what it costs, and how one removes it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Leftover:
    """`reason`: why it counts as the stack's. `usd_a_month`: 0 where AWS charges nothing, None where it depends on use, NaN
    where there is no price.

    `remove`: the command with which somebody removes it; nothing here runs it.
    """

    kind: str
    id: str
    name: str
    reason: str
    usd_a_month: float | None
    remove: str
