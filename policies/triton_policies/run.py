"""Memory of the pack's process while the engine registers resources, for the policies that judge at the end."""

from __future__ import annotations

from dataclasses import dataclass, field

from triton_policies.reading import Property
from triton_policies.waiting import Waiting


@dataclass
class Run:
    """One run of the engine. `inputs`: URN -> what the program asks for; the engine tells it of single resources only."""

    waiting: Waiting = field(default_factory=Waiting)
    inputs: dict[str, Property] = field(default_factory=dict)
    strays: dict[str, str] = field(default_factory=dict)
    """`<policy>.<setting>` -> what to do: what the pack's configuration sets and no policy has."""
