"""The deploy role compared with the calls of a teardown and the workflows."""

from __future__ import annotations

from bootstrap import deploy_permissions, permissions
from stackctl.account.read_only import Operations
from stackctl.orphans import operations as orphans
from stackctl.preflight import operations as preflight
from tests.bootstrap.roles import ACCOUNT, scope
from tests.repository.workflows import workflow_files


def allowed() -> set[str]:
    statements = [
        *permissions.read(ACCOUNT),
        *(one for found in deploy_permissions.deploy(scope("prod")).values() for one in found),
    ]
    return {action for one in statements if one["Effect"] == "Allow" for action in one["Action"]}


def actions_of(operations: Operations) -> set[str]:
    return {action for known in operations.values() for action in known.values()}


def test_a_teardown_may_ask_what_is_left() -> None:
    """`make destroy`, which destroy.yml runs, ends with every finder of `stackctl.orphans`: one refusal fails it."""
    assert actions_of(orphans.OPERATIONS) - allowed() == set()


def test_no_workflow_runs_what_neither_role_may_ask() -> None:
    """Users run preflight, with the policy of docs/preflight.md."""
    assert actions_of(preflight.OPERATIONS) - allowed()
    scripts = [step.script for step in workflow_files.steps() if step.script]
    assert [script for script in scripts if "preflight" in script] == []
