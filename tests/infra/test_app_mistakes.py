"""Mistakes in a stack file, as the program tells them to the engine."""

from __future__ import annotations

from typing import Any

import pulumi
import pytest

import bootstrap.program
from bootstrap.settings import Settings as BootstrapSettings
from infra import app
from spec.settings import load
from tests.spec.stack_config import config


def told(monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]) -> list[str]:
    monkeypatch.setattr(app.stack_settings, "from_pulumi", lambda: load(config(changes, "staging"), "staging"))
    with pytest.raises(pulumi.RunError) as ended:
        app.main()
    return str(ended.value).splitlines()


def test_the_line_that_the_engine_shows_twice_counts_and_each_mistake_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(monkeypatch, {"network.zones": 9, "cluster.logRetentionDays": "long"}) == [
        "stacks/Pulumi.staging.yaml: 2 mistakes",
        "  stacks/Pulumi.staging.yaml: network.zones: 9 is out of range; use 2 to 4 zones",
        "  stacks/Pulumi.staging.yaml: cluster.logRetentionDays: 'long' is text; give a whole number",
    ]
    assert told(monkeypatch, {"network.zones": 9})[0] == "stacks/Pulumi.staging.yaml: 1 mistake"


def test_mistakes_of_the_bootstrap_stack_are_told_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulumi, "get_stack", lambda: "bootstrap")
    monkeypatch.setattr(
        bootstrap.program.stack_settings, "from_pulumi", lambda: BootstrapSettings("", environments=("dev", "*"))
    )
    with pytest.raises(pulumi.RunError) as ended:
        bootstrap.program.main()
    assert str(ended.value).splitlines() == [
        "Pulumi.bootstrap.yaml: 2 mistakes",
        "  repository: '' is not a GitHub repository; give ORG/REPO, without wildcards",
        "  environments: '*' is not an environment of GitHub; give its name, without wildcards",
    ]
