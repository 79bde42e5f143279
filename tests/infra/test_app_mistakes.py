"""Mistakes in a stack file, as the program reports them to the engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pulumi
import pytest
import yaml

import bootstrap.program
from bootstrap.settings import Settings as BootstrapSettings
from infra import app
from spec.problem import SettingsError
from spec.settings import load
from tests.paths import ROOT
from tests.spec.stack_config import config
from tests.system.component.engine.stack_run import previewed


def refused(monkeypatch: pytest.MonkeyPatch, main: Callable[[], None]) -> list[str]:
    """Return the lines of the only error that the program reports to the engine before it exits as already explained."""
    errors: list[str] = []
    monkeypatch.setattr(pulumi.log, "error", errors.append)
    with pytest.raises(SystemExit) as ended:
        main()
    assert (ended.value.code, len(errors)) == (32, 1)
    return errors[0].splitlines()


def told(monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]) -> list[str]:
    monkeypatch.setattr(app.stack_settings, "from_pulumi", lambda: load(config(changes, "staging"), "staging"))
    return refused(monkeypatch, app.main)


def test_the_line_that_the_engine_shows_twice_counts_and_each_mistake_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(monkeypatch, {"network.zones": 9, "cluster.logRetentionDays": "long"}) == [
        "stacks/Pulumi.staging.yaml: 2 mistakes",
        "  stacks/Pulumi.staging.yaml: network.zones: 9 is out of range; use 1 to 4 zones",
        "  stacks/Pulumi.staging.yaml: cluster.logRetentionDays: 'long' is text; give a whole number",
    ]
    assert told(monkeypatch, {"network.zones": 9})[0] == "stacks/Pulumi.staging.yaml: 1 mistake"


def test_mistakes_of_the_bootstrap_stack_are_told_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulumi, "get_stack", lambda: "bootstrap")
    monkeypatch.setattr(
        bootstrap.program.stack_settings, "from_pulumi", lambda: BootstrapSettings("", environments=("dev", "*"))
    )
    assert refused(monkeypatch, bootstrap.program.main) == [
        "Pulumi.bootstrap.yaml: 2 mistakes",
        "  repository: '' is not a GitHub repository; give ORG/REPO, without wildcards",
        "  environments: '*' is not an environment of stacks; use dev, staging or prod",
    ]


@pytest.mark.parametrize("stack", ["dev", "prod"])
def test_a_stack_without_its_boundary_is_refused_before_the_first_resource(
    stack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.system.component.engine.program.account.create_boundary", lambda *_: None)
    file = ROOT / "stacks" / f"Pulumi.{stack}.yaml"
    tracked = yaml.safe_load(file.read_text())["config"]
    with pytest.raises(SettingsError) as caught:
        previewed(ROOT, stack, tracked)
    assert [str(problem) for problem in caught.value.problems] == [
        f"permissionsBoundary: the account has no policy arn:aws:iam::123456789012:policy/triton-eks-boundary-{stack}, "
        "which bounds the stack's roles; run `make state REGION=us-west-2` as an administrator, or set "
        "permissionsBoundary: false in an account that GitHub's workflows do not deploy to"
    ]
