"""The kinds of stacks that `stackctl init` writes, apart from the settings: the command line imports this at once."""

from __future__ import annotations

from enum import StrEnum


class Profile(StrEnum):
    """The nodes of Triton in the new stack: with a GPU, or without."""

    GPU = "gpu"
    CPU = "cpu"
