"""Every stack applies, refreshes without drift, and is destroyed completely."""

from __future__ import annotations

from tests.system.component.engine.stack_run import StackRun


def test_preview_and_up_register_the_same_resources(stack_run: StackRun) -> None:
    assert stack_run.preview.urns() == stack_run.up.urns()


def test_a_refresh_after_the_update_shows_nothing(stack_run: StackRun) -> None:
    assert stack_run.refreshed.outputs == []


def test_a_refresh_followed_by_an_update_changes_nothing(stack_run: StackRun) -> None:
    assert stack_run.refreshed.inputs == []


def test_a_destroy_leaves_nothing(stack_run: StackRun) -> None:
    assert stack_run.leftovers == {}


def test_only_the_production_cluster_refuses_to_be_deleted(stack_run: StackRun) -> None:
    expected = {
        "prod": "EKS cluster triton-prod has deletion protection; set deletionProtection to false and apply that first"
    }
    assert stack_run.refused_delete == expected.get(stack_run.stack, "")


def test_environments_register_more_than_a_hundred_resources(stack_run: StackRun) -> None:
    # In its tracked file, `local` has no release before the first `modelctl release`, hence no Triton.
    if stack_run.stack != "local":
        assert len(stack_run.up.registrations) > 100
