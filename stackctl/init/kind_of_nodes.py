"""Define the kinds of stacks that `stackctl init` writes.

It is separate from the settings, because the command line always imports it.
"""

from __future__ import annotations

from enum import StrEnum


class Profile(StrEnum):
    """Triton's nodes in the new stack: with or without a GPU."""

    GPU = "gpu"
    CPU = "cpu"
