"""How the engine is called: which stack, which environment, which lines of its output."""

from pathlib import Path

import pytest

from twin import engine
from twin.home import TwinHome


@pytest.mark.parametrize(
    ("arguments", "stack"),
    [
        (["preview", "--stack", "prod"], "prod"),
        (["preview", "--stack=prod", "--diff"], "prod"),
        (["-s", "dev", "up"], "dev"),
        (["up", "--yes"], "local"),
        (["up", "--stack"], "local"),
    ],
)
def test_the_stack_is_the_one_that_the_command_line_names(
    arguments: list[str], stack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PULUMI_STACK", raising=False)
    assert engine.stack_of(arguments, default="local") == stack


def test_without_a_flag_the_selected_stack_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULUMI_STACK", "staging")
    assert engine.stack_of(["preview"], default="local") == "staging"


def test_nothing_of_the_persons_own_aws_or_pulumi_set_up_reaches_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "production")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "real")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "https://real.example")
    monkeypatch.setenv("PULUMI_ACCESS_TOKEN", "real")
    monkeypatch.setenv("KUBECONFIG", "/real/kubeconfig")
    found = engine.environment(TwinHome(tmp_path), aws_endpoint="http://127.0.0.1:1", kubeconfig=tmp_path / "kubeconfig")
    assert {
        k for k in found if k in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3", "PULUMI_ACCESS_TOKEN")
    } == set()
    assert found["AWS_ENDPOINT_URL"] == "http://127.0.0.1:1"
    assert found["KUBECONFIG"] == str(tmp_path / "kubeconfig")
    assert found["PULUMI_BACKEND_URL"] == f"file://{tmp_path / 'state'}"
