"""Errors of the fake account for users, shown without a stack trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Problem:
    """A problem with one input; ``property`` is a path such as ``vpcConfig.subnetIds[0]``."""

    property: str
    reason: str

    def __str__(self) -> str:
        return f"{self.property}: {self.reason}"


class HandlerError(Exception):
    """A request that AWS would refuse; the twin itself detects it."""


class InvalidInputs(HandlerError):
    """Inputs refused before any AWS call, with all problems of one resource."""

    def __init__(self, token: str, problems: Sequence[Problem]) -> None:
        self.token = token
        self.problems = tuple(problems)
        super().__init__("; ".join(f"{token}: {problem}" for problem in self.problems))


class HalfCreated(HandlerError):
    """AWS returned an id, but the resource did not reach the requested state. The provider keeps it in the state.

    Its outputs are the values known before the wait; computed outputs come with the next read.
    """

    def __init__(self, id: str, outputs: dict[str, Any], reason: str) -> None:
        super().__init__(reason)
        self.id = id
        self.outputs = outputs


class UnsupportedType(HandlerError):
    """The fake account does not support this resource type or invoke."""
