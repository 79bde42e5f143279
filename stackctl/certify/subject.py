"""The subject of a check: a stack that stands, its account, its cluster, and what the run has seen so far."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spec.settings import Settings
from stackctl.account.guard import Caller
from stackctl.account.read_only import Readers
from stackctl.destroy.state import Resource
from stackctl.orphans.search import Leftover
from stackctl.preflight.command import Row

UP, FIRST_INFERENCE, TEARDOWN = "pulumi up", "first inference", "teardown"
"""The steps of a run whose trouble is kept."""

Object = Mapping[str, Any]
"""An object of Kubernetes as its API gives it."""


@dataclass
class Subject:
    """A run, while it goes on.

    `objects` returns the list at a path of the Kubernetes API (`/api/v1/nodes`), and raises Failure; a kind that the cluster
    does not know has no objects. `text` returns the answer at a path as it is. `drift` compares the state with what exists
    and returns the differences, "" without any. `time_left` returns the seconds until the run's time is over. `found` are
    preflight's findings before `up`; `answer` is what the first inference said; `left` is what AWS still has after the
    teardown, None while the stack stands; `trouble` is what went wrong on the way, by step.
    """

    settings: Settings
    readers: Readers
    resources: Sequence[Resource]
    objects: Callable[[str], Sequence[Object]]
    drift: Callable[[], str]
    caller: Caller
    text: Callable[[str], str]
    time_left: Callable[[], float] = lambda: 0.0
    sleep: Callable[[float], None] = time.sleep
    found: Sequence[Row] = ()
    answer: str = ""
    left: Sequence[Leftover] | None = None
    trouble: dict[str, str] = field(default_factory=dict)
