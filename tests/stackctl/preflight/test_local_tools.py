"""Programs of this machine: their printed versions, compared with the stack's needs."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from spec.settings import load_stack_file
from stackctl.preflight.checks import local_tools
from stackctl.preflight.checks.check import Status, Subject
from tests.paths import ROOT
from tests.spec.stack_config import TODAY

PLUGINS = [
    {"name": name, "kind": "resource", "version": importlib.metadata.version(f"pulumi-{name}"), "size": 1}
    for name in ("aws", "eks", "kubernetes")
]
GOOD = {
    "pulumi": f"case $1 in version) echo v3.257.0;; *) echo '{json.dumps(PLUGINS)}';; esac",
    "aws": "echo aws-cli/2.35.4 Python/3.13.7 Linux/6.8 exe/x86_64.ubuntu.24",
    "kubectl": "echo Client Version: v1.36.2; echo Kustomize Version: v5.7.1",
    "session-manager-plugin": "echo 1.2.779.0",
}


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Put only these programs on PATH: each is a shell script; None: it is missing."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("PATH", str(tmp_path))

    def put(**changes: str | None) -> None:
        for name, script in {**GOOD, **{key.replace("_", "-"): text for key, text in changes.items()}}.items():
            if script is not None:
                (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
                (tmp_path / name).chmod(0o755)

    return put


def results(subject: Subject) -> dict[str, tuple[Status, str]]:
    """Return the findings by the first word of their message."""
    return {finding.message.split()[0]: (finding.status, finding.message) for finding in local_tools.check(subject)}


def test_programs_that_are_new_enough_are_ok(subject: Callable[..., Subject], tools: Callable[..., None]) -> None:
    tools()
    plugins = ", ".join(f"{plugin['name']} {plugin['version']}" for plugin in PLUGINS)
    assert results(subject()) == {
        "pulumi": (Status.OK, "pulumi 3.257.0; Pulumi.yaml needs 3.250.0 or newer"),
        "plugins": (Status.OK, f"plugins are installed: {plugins}"),
        "aws": (Status.OK, "aws 2.35.4; the EKS component and each kubeconfig run it"),
        "kubectl": (Status.OK, "kubectl 1.36.2"),
        "session-manager-plugin": (Status.OK, "session-manager-plugin 1.2.779.0"),
    }


def test_a_public_api_server_needs_no_session_manager(subject: Callable[..., Subject], tools: Callable[..., None]) -> None:
    tools(session_manager_plugin=None)
    one = replace(subject(), settings=load_stack_file(ROOT / "stacks" / "Pulumi.dev.yaml", today=TODAY))
    assert one.settings.cluster.endpoint == "public"
    assert "session-manager-plugin" not in results(one)
    assert results(subject())["session-manager-plugin"] == (
        Status.WARN,
        "session-manager-plugin does not run; `stackctl tunnel staging`, a way to the private API server, needs it",
    )


def test_an_old_pulumi_fails_and_a_missing_one_is_asked_for_no_plugins(
    subject: Callable[..., Subject], tools: Callable[..., None], tmp_path: Path
) -> None:
    tools(pulumi="case $1 in version) echo v3.249.5;; *) echo '[]';; esac")
    assert results(subject())["pulumi"] == (Status.FAIL, "pulumi is 3.249.5; Pulumi.yaml needs 3.250.0 or newer")
    (tmp_path / "pulumi").unlink()
    found = results(subject())
    assert found["pulumi"] == (Status.FAIL, "pulumi does not run; Pulumi.yaml needs 3.250.0 or newer")
    assert "`pulumi" not in found


def test_plugins_that_up_will_download_are_named(subject: Callable[..., Subject], tools: Callable[..., None]) -> None:
    there = json.dumps([{**PLUGINS[0], "version": "7.25.0"}, PLUGINS[1]])
    tools(pulumi=f"case $1 in version) echo v3.257.0;; *) echo '{there}';; esac")
    aws, kubernetes = PLUGINS[0]["version"], PLUGINS[2]["version"]
    assert results(subject())["`pulumi"] == (
        Status.OK,
        f"`pulumi up` downloads these plugins first: aws {aws}, kubernetes {kubernetes}; if missing, also the older aws and "
        "kubernetes of the EKS component (docs/aws.md has their size)",
    )


@pytest.mark.parametrize("said", ["echo '{}'", "echo '[1]'", "echo no JSON", "exit 1"])
def test_a_list_of_plugins_that_is_none_is_unknown(
    subject: Callable[..., Subject], tools: Callable[..., None], said: str
) -> None:
    tools(pulumi=f"case $1 in version) echo v3.257.0;; *) {said};; esac")
    listed = (Status.UNKNOWN, "`pulumi plugin ls --json` prints no list of plugins")
    if said == "echo '{}'":  # a mapping without plugins names none
        assert results(subject())["`pulumi"][0] is Status.OK
    else:
        assert results(subject())["`pulumi"] == listed


@pytest.mark.parametrize(
    ("aws", "status", "message"),
    [
        (None, Status.FAIL, "aws does not run; the EKS component and each kubeconfig run it"),
        ("exit 1", Status.FAIL, "aws does not run; the EKS component and each kubeconfig run it"),
        ("echo aws-cli/2.6.4 x", Status.FAIL, "aws is 2.6.4, and the EKS component needs 2.7 or newer"),
        ("echo aws-cli/1.23.0 x", Status.FAIL, "aws is 1.23.0, and the EKS component needs 2.7 or newer"),
        (
            "echo aws-cli/1.46.3 x",
            Status.WARN,
            "aws is 1.46.3: version 1 has neither `aws login` nor `aws sso login`",
        ),
    ],
)
def test_an_aws_that_is_missing_or_old_is_told(
    subject: Callable[..., Subject], tools: Callable[..., None], aws: str | None, status: Status, message: str
) -> None:
    tools(aws=aws)
    assert results(subject())["aws"] == (status, message)


@pytest.mark.parametrize(("installed", "status"), [("2.31.9", Status.FAIL), ("2.32.0", Status.OK)])
def test_a_profile_of_aws_login_needs_an_aws_that_has_it(
    subject: Callable[..., Subject],
    tools: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    installed: str,
    status: Status,
) -> None:
    """With an older version, `aws eks get-token` finds no credentials. Others, like SSO, need 2.7."""
    tools(aws=f"echo aws-cli/{installed} x")
    one = subject()
    (tmp_path / "config").write_text("[profile p]\nlogin_session = arn:aws:iam::123456789012:user/me\n[profile q]\n")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_PROFILE", "p")
    found = results(one)["aws"]
    assert found[0] is status
    if status is Status.FAIL:
        assert found[1] == ("aws is 2.31.9, and the profile's credentials come from `aws login`, which needs 2.32 or newer")
    monkeypatch.setenv("AWS_PROFILE", "q")
    assert results(one)["aws"][0] is Status.OK


def test_kubectl_may_be_one_minor_version_away(subject: Callable[..., Subject], tools: Callable[..., None]) -> None:
    tools(kubectl="echo Client Version: v1.33.1")
    assert results(subject())["kubectl"] == (
        Status.WARN,
        "kubectl is 1.33.1; for Kubernetes 1.35 it may be one minor version older or newer",
    )
    tools(kubectl="exit 1")
    assert results(subject())["kubectl"] == (
        Status.WARN,
        "kubectl does not run; `pulumi up` needs none, the runbooks do",
    )
