"""Hold the engine's plan for one stack as data. It needs only the standard library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Action = Literal["create", "update", "replace", "delete"]

ABSENT = "(none)"
"""Text for a value that does not exist."""
WAITING_POLICY = "judged-at-up"
"""Our pack's policy that lists the checks that run only in the update.

It lists them for all policies.
"""


@dataclass(frozen=True)
class Change:
    """A changed property: its path, and both values as printed."""

    path: str
    before: str
    after: str


@dataclass(frozen=True)
class Step:
    """The change of one resource in a plan.

    `replace_reasons`: the property paths whose change forces a replacement. `caused_by`: the `key` of the replacement
    that makes this one necessary; None if it has its own cause.
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
        """Identifier that other steps of the plan use for this one."""
        return f"{self.type}::{self.name}"


@dataclass(frozen=True)
class Violation:
    """A policy that one resource violates, or the whole stack (empty `resource`).

    `deferred`: not a violation. The policy needs a value that a preview does not know, and runs in the update.
    """

    policy: str
    mandatory: bool
    severity: str
    resource: str
    message: str
    deferred: bool = False


@dataclass(frozen=True)
class Plan:
    """The engine's plan for one stack.

    `counts`: the engine's number of resources by operation, including unchanged ones. `packs`: versions of the policy
    packs that ran, by name; None if the engine's JSON does not list them, or ends before. `errors`: the causes of a
    failed preview.
    """

    steps: tuple[Step, ...]
    counts: Mapping[str, int] = field(default_factory=dict)
    violations: tuple[Violation, ...] = ()
    packs: Mapping[str, str] | None = None
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def ended_before_resources(self) -> bool:
        """Return whether the preview failed with only the stack itself.

        In that case no policy has evaluated a resource.
        """
        return bool(self.errors) and not self.steps and sum(self.counts.values()) <= 1
