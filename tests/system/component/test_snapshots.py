"""Compares each stack's registrations with the reviewed snapshot; a pull request shows the diff as its preview."""

from __future__ import annotations

import json

from tests import snapshots
from tests.golden import Golden
from tests.system.component.engine import snapshot
from tests.system.component.engine.stack_run import StackRun


def test_the_registrations_are_those_that_were_reviewed(stack_run: StackRun, golden: Golden) -> None:
    content = json.loads(json.dumps(snapshot.content(stack_run.up)))
    golden.check(snapshots.FOLDER / f"{stack_run.stack}.json", snapshots.text(stack_run.stack, content))


def test_every_generated_id_comes_from_a_resource_of_the_stack(stack_run: StackRun) -> None:
    assert "<unknown id>" not in json.dumps(snapshot.content(stack_run.up))
