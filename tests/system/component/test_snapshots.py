"""Registrations of each stack, as last reviewed: the diff of a snapshot is the preview of a pull request."""

from __future__ import annotations

from pathlib import Path

from tests.golden import Golden
from tests.system.component.engine import snapshot
from tests.system.component.engine.stack_run import StackRun

_FOLDER = Path(__file__).parent / "snapshots"


def test_the_registrations_are_those_that_were_reviewed(stack_run: StackRun, golden: Golden) -> None:
    golden.check(_FOLDER / f"{stack_run.stack}.json", snapshot.text(stack_run.up))


def test_every_generated_id_comes_from_a_resource_of_the_stack(stack_run: StackRun) -> None:
    assert "<unknown id>" not in snapshot.text(stack_run.up)
