"""Memory of the pack's process while the engine registers resources, for the policies that judge at the end."""

from __future__ import annotations

from dataclasses import dataclass, field

from triton_policies.reading import Property
from triton_policies.resources import stack_of
from triton_policies.waiting import Waiting


@dataclass
class Run:
    """One run of the engine. `inputs`: URN -> what the program asks for; the engine tells it of single resources only."""

    waiting: Waiting = field(default_factory=Waiting)
    inputs: dict[str, Property] = field(default_factory=dict)
    strays: dict[str, str] = field(default_factory=dict)
    """`<policy>.<setting>` -> what to do: what the pack's configuration sets and no policy has."""
    environment: str | None = None
    """The environment that the stack is configured to be; None where its configuration does not say it."""
    region: str | None = None
    """Where the stack is (`aws:region`); None where its configuration does not say it."""

    accounts: frozenset[str] = frozenset()
    """The stack's own AWS accounts (`aws:allowedAccountIds`); none where its configuration does not say them."""

    def environment_of(self, urn: str) -> str:
        """Return what the stack of a resource is: as it is configured, else the stack's name, which may say it."""
        return self.environment or stack_of(urn)
