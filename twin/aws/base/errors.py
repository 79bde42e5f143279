"""Errors of the fake account that are for people, not for stack traces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Problem:
    """One thing wrong with one input; ``property`` is a path such as ``vpcConfig.subnetIds[0]``."""

    property: str
    reason: str

    def __str__(self) -> str:
        return f"{self.property}: {self.reason}"


class HandlerError(Exception):
    """Something AWS would refuse, found by the twin itself."""


class InvalidInputs(HandlerError):
    """Inputs refused before any AWS call; carries all problems of one resource."""

    def __init__(self, token: str, problems: Sequence[Problem]) -> None:
        self.token = token
        self.problems = tuple(problems)
        super().__init__("; ".join(f"{token}: {problem}" for problem in self.problems))


class HalfCreated(HandlerError):
    """AWS returned an id, and what it names did not become what was asked for. The provider keeps it in the state.

    Its outputs are what was known before the wait: computed ones come with the next read.
    """

    def __init__(self, id: str, outputs: dict[str, Any], reason: str) -> None:
        super().__init__(reason)
        self.id = id
        self.outputs = outputs


class UnsupportedType(HandlerError):
    """A resource type or invoke that the fake account does not have."""
