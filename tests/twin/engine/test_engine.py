"""The engine's call: stack, environment, and printed lines."""

import contextlib
import json
import os
import signal
import threading
from pathlib import Path

import pytest

from twin.engine import engine
from twin.engine.engine import Engine
from twin.host.home import TwinHome
from twin.host.processes import wait_until


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
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "real.example")
    monkeypatch.setenv("HELM_NAMESPACE", "real")
    found = engine.environment(TwinHome(tmp_path), aws_endpoint="http://127.0.0.1:1", kubeconfig=tmp_path / "kubeconfig")
    assert not [name for name, value in found.items() if value.startswith(("real", "https://real", "/real", "production"))]
    assert found["AWS_ENDPOINT_URL"] == "http://127.0.0.1:1"
    assert found["KUBECONFIG"] == str(tmp_path / "kubeconfig")
    assert found["PULUMI_BACKEND_URL"] == f"file://{tmp_path / 'state'}?metadata=skip"


def test_what_the_engine_imports_is_compiled_once_also_where_an_image_forbids_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("PYTHONUNBUFFERED", "1")
    found = engine.environment(TwinHome(tmp_path), aws_endpoint="http://127.0.0.1:1", kubeconfig=tmp_path / "kubeconfig")
    assert "PYTHONDONTWRITEBYTECODE" not in found
    assert found["PYTHONUNBUFFERED"] == "1"


def test_providers_that_the_engine_makes_by_itself_are_not_counted(tmp_path: Path) -> None:
    urns = [
        "urn:pulumi:local::triton-eks::pulumi:pulumi:Stack::triton-eks-local",
        "urn:pulumi:local::triton-eks::pulumi:providers:aws::default_7_51_1",
        "urn:pulumi:local::triton-eks::pulumi:providers:pulumi::default",
        "urn:pulumi:local::triton-eks::triton:cluster:Cluster$pulumi:providers:kubernetes::cluster-kubernetes",
        "urn:pulumi:local::triton-eks::aws:ec2/vpc:Vpc::default",
    ]

    class RecordedEngine(Engine):
        def read(self, stack: str, arguments: object) -> str:
            return json.dumps({"deployment": {"resources": [{"urn": urn} for urn in urns]}})

    found = RecordedEngine(TwinHome(tmp_path), Path("pulumi"), {}).resources("local")
    assert [resource["urn"] for resource in found] == [urns[0], urns[3], urns[4]]


@pytest.mark.parametrize(("code", "ends"), [(0, 0), (255, None)])
def test_ctrl_c_is_waited_out_and_passed_on_unless_the_engine_was_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, ends: int | None
) -> None:
    pulumi = tmp_path / "pulumi"
    ready = tmp_path / "ready"
    for_a_minute = "i=0; while [ $i -lt 1200 ]; do sleep 0.05; i=$((i+1)); done"
    pulumi.write_text(f"#!/bin/sh\ntrap 'exit {code}' INT\necho $$ > {ready}.new\nmv {ready}.new {ready}\n{for_a_minute}\n")
    pulumi.chmod(0o755)
    monkeypatch.setattr(Engine, "_prepare", lambda self, stack: {"PATH": os.defpath})

    def interrupt() -> None:
        wait_until(ready.exists, "the engine to run", 60)
        os.kill(int(ready.read_text()), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    # A test run in a shell's background starts with SIGINT ignored, and so would the program here.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        expected = contextlib.nullcontext() if ends is not None else pytest.raises(KeyboardInterrupt)
        with expected:
            assert Engine(TwinHome(tmp_path), pulumi, {}, tmp_path).run("local", ["up"]) == ends
    finally:
        thread.join()
        signal.signal(signal.SIGINT, handler)


def test_an_update_that_did_not_begin_changed_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    history = [{"startTime": "2026-11-23T10:00:00.000Z", "resourceChanges": {"create": 251}}]
    monkeypatch.setattr(Engine, "read", lambda *_: json.dumps(history[:1]))
    found = Engine(TwinHome(tmp_path), tmp_path / "pulumi", {})
    earlier = found.last_update("local")
    assert earlier.changes == {"create": 251}
    assert found.changes_since("local", earlier) == {}
    history.insert(0, {"startTime": "2026-11-23T10:05:00.000Z", "resourceChanges": {"same": 251}})
    assert found.changes_since("local", earlier) == {"same": 251}


@pytest.mark.parametrize(
    ("arguments", "refused"),
    [
        ("config rm --path triton-eks:models.release --stack first", "rm"),
        ("--stack first config set --path k v", "set"),
        ("config --stack first set-all --plaintext k=v", "set-all"),
        ("config refresh", "refresh"),
        ("config get triton-eks:network --stack first", None),
        ("config --stack first", None),
        ("stack rm first", None),
        ("refresh --stack first", None),
    ],
)
def test_what_would_change_the_twins_copy_of_a_stack_file_is_refused(arguments: str, refused: str | None) -> None:
    if refused is None:
        engine.refuse_writes_of_configuration(arguments.split(), "first")
        return
    with pytest.raises(engine.EngineError) as told:
        engine.refuse_writes_of_configuration(arguments.split(), "first")
    assert str(told.value) == (
        f"in the shell of a twin `pulumi config {refused}` would change a copy of the stack file that is made anew for each "
        "command, and nothing was done; edit stacks/Pulumi.first.yaml itself"
    )
