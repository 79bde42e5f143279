"""Hold the subject of a check: a running stack and the run's results so far."""

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
"""The steps of a run whose errors are recorded."""

Object = Mapping[str, Any]
"""A Kubernetes object as its API returns it."""


@dataclass
class Subject:
    """A run in progress.

    `objects` returns the list at a path of the Kubernetes API (`/api/v1/nodes`), and raises Failure; an unknown kind has
    no objects. `text` returns the response at a path as text. `drift` compares the state with the real resources and
    returns the differences, "" without any. `time_left` returns the seconds until the end of the run. `found` has
    preflight's findings before `up`. `answer` is the output of the first inference. `left` are the resources that AWS
    still has after the teardown, None while the stack is up. `trouble` has the errors by step.
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
