"""State of the pack's process while the engine registers resources. Policies that run at the end use it."""

from __future__ import annotations

from dataclasses import dataclass, field

from triton_policies.reading import Property
from triton_policies.resources import stack_of
from triton_policies.waiting import Waiting


@dataclass
class Run:
    """One run of the engine. `inputs` are the program's inputs by URN, which the engine passes only for single resources."""

    waiting: Waiting = field(default_factory=Waiting)
    inputs: dict[str, Property] = field(default_factory=dict)
    strays: dict[str, str] = field(default_factory=dict)
    """`<policy>.<setting>` -> remedy, for configured settings that no policy has."""
    environment: str | None = None
    """The environment in the stack's configuration; None if it is not configured."""
    region: str | None = None
    """The region of the stack (`aws:region`); None if it is not configured."""

    accounts: frozenset[str] = frozenset()
    """The stack's own AWS accounts (`aws:allowedAccountIds`); empty if they are not configured."""

    def environment_of(self, urn: str) -> str:
        """Return the environment of a resource's stack: the configured one, else the stack's name, which may contain it."""
        return self.environment or stack_of(urn)
