"""What each stack registers, as it was last reviewed: the diff of a snapshot is the preview of a pull request."""

from __future__ import annotations

import difflib
from pathlib import Path

from tests.system.component.engine import snapshot
from tests.system.component.engine.stack_run import StackRun

_FOLDER = Path(__file__).parent / "snapshots"


def test_the_registrations_are_those_that_were_reviewed(stack_run: StackRun, update_snapshots: bool) -> None:
    """Regenerate with `pytest tests/system/component --update-snapshots`, then review the diff."""
    path = _FOLDER / f"{stack_run.stack}.json"
    actual = snapshot.text(stack_run.up)
    if update_snapshots:
        path.write_text(actual)
    reviewed = path.read_text()
    difference = difflib.unified_diff(reviewed.splitlines(), actual.splitlines(), "reviewed", "registered", lineterm="")
    assert actual == reviewed, "\n".join(difference)


def test_every_generated_id_comes_from_a_resource_of_the_stack(stack_run: StackRun) -> None:
    assert "<unknown id>" not in snapshot.text(stack_run.up)
