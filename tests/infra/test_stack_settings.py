"""The program reads its settings from the engine, and refuses the same mistakes as the commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pulumi
import pulumi.runtime
import pytest

from infra.stack_settings import from_pulumi
from spec.settings import SettingsError
from tests.spec.stack_config import config, settings


def test_the_engine_hands_sections_over_as_json_text(monkeypatch: pytest.MonkeyPatch) -> None:
    as_text = {k: v if isinstance(v, str) else json.dumps(v) for k, v in config({}).items()}
    monkeypatch.setattr(pulumi, "get_stack", lambda: "staging")
    monkeypatch.setenv("PULUMI_CONFIG", json.dumps(as_text | {"pulumi:tags": "{}"}))
    assert from_pulumi().network == settings().network


def test_config_set_in_process_is_read_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PULUMI_CONFIG", raising=False)
    monkeypatch.setattr(pulumi, "get_stack", lambda: "staging")
    token = pulumi.runtime.config.CONFIG.set({"triton-eks:environment": "staging"})
    try:
        with pytest.raises(SettingsError) as caught:
            from_pulumi()
    finally:
        pulumi.runtime.config.CONFIG.reset(token)
    assert "environment" not in [problem.path for problem in caught.value.problems]
    assert "network" in [problem.path for problem in caught.value.problems]


def _engines(monkeypatch: pytest.MonkeyPatch, file: Path, values: dict[str, Any]) -> None:
    """Set up the program as the engine runs it, with the values that the engine has read from the file."""
    as_text = {k: v if isinstance(v, str) else json.dumps(v) for k, v in values.items()}
    monkeypatch.setattr(pulumi, "get_stack", lambda: "staging")
    monkeypatch.setenv("PULUMI_CONFIG", json.dumps(as_text))
    monkeypatch.setenv("PULUMI_OPTION_CONFIG_FILE", str(file))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("max: 010", "line 2, column 8: 010 begins with a zero, and is read by eights or not"),
        (
            "network: {}\n  triton-eks:network: {}",
            "line 3: triton-eks:network and network (line 2) are two spellings of one",
        ),
    ],
)
def test_the_program_refuses_what_the_commands_refuse_though_the_engine_does_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, line: str, said: str
) -> None:
    """For 010 the engine passes 8; for two spellings of a key it passes either one."""
    file = tmp_path / "Pulumi.staging.yaml"
    file.write_text(f"config:\n  {line}\n")
    _engines(monkeypatch, file, config({}))
    with pytest.raises(SettingsError) as refused:
        from_pulumi()
    assert str(refused.value).startswith(f"stacks/Pulumi.staging.yaml: {said}")
    file.write_text("config: {}\n")
    assert from_pulumi().network == settings().network
