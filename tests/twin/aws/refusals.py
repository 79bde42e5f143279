"""How the tables of bad inputs are written and checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.twin.aws.world import World
from twin.aws.base.handler import APPLY_ERRORS, explain


@dataclass(frozen=True)
class Refusal:
    """Inputs with one mistake, and what a person is told. ``{name}`` in the message is the id of a resource made before."""

    mistake: str
    token: str
    inputs: Callable[[World], dict[str, Any]]
    message: str


def check(world: World, refusal: Refusal) -> None:
    """The handler refuses the inputs with exactly this message and makes nothing."""
    with pytest.raises(APPLY_ERRORS) as caught:
        world.make(refusal.token, "bad", **refusal.inputs(world))
    ids = {name: made.id for name, made in world.made.items()}
    expected = refusal.message
    for name, id in ids.items():
        expected = expected.replace(f"{{{name}}}", id)
    assert explain(caught.value) == expected


def ids(refusals: list[Refusal]) -> list[str]:
    """Test ids."""
    return [refusal.mistake for refusal in refusals]
