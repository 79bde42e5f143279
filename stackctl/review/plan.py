"""Hold what the engine intends to do with one stack, as data. The standard library is all it needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Action = Literal["create", "update", "replace", "delete"]

ABSENT = "(none)"
"""How a value is shown that is not there."""
WAITING_POLICY = "judged-at-up"
"""The policy of our pack that says, once for all the others, what they judge in the update alone."""


@dataclass(frozen=True)
class Change:
    """One property that changes: its path, and both values as they may be shown."""

    path: str
    before: str
    after: str


@dataclass(frozen=True)
class Step:
    """The change of one resource in a plan.

    `replace_reasons`: the property paths whose change forces a replacement. `caused_by`: the `key` of the replacement that
    makes this one necessary; None where it has a cause of its own.
    """

    action: Action
    type: str
    name: str
    changed: tuple[Change, ...] = ()
    replace_reasons: tuple[str, ...] = ()
    protected: bool = False
    caused_by: str | None = None

    @property
    def key(self) -> str:
        """By which other steps of the plan name this one."""
        return f"{self.type}::{self.name}"


@dataclass(frozen=True)
class Violation:
    """One policy that one resource, or the whole stack (`resource` empty), does not keep.

    `deferred`: not a violation. The policy asks for a value that a preview does not know, and judges it in the update.
    """

    policy: str
    mandatory: bool
    severity: str
    resource: str
    message: str
    deferred: bool = False


@dataclass(frozen=True)
class Plan:
    """The engine's intent for one stack.

    `counts`: resources by operation, those that stay included, as the engine counts them. `packs`: policy packs that ran, by
    version; None where the engine's JSON does not say, or ends before. `errors`: why the preview failed.
    """

    steps: tuple[Step, ...]
    counts: Mapping[str, int] = field(default_factory=dict)
    violations: tuple[Violation, ...] = ()
    packs: Mapping[str, str] | None = None
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def ended_before_resources(self) -> bool:
        """Return whether the preview failed with nothing there but the stack itself: policies have then judged nothing."""
        return bool(self.errors) and not self.steps and sum(self.counts.values()) <= 1
