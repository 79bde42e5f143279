"""Commands that need a running twin and find none, and the programs of a twin's shell."""

import importlib.metadata
import json
import subprocess
from pathlib import Path

import pytest

from tests.twin import go_stand_in
from twin.host.home import REPOSITORY, TwinHome
from twin.services import servers
from twin.services.servers import NotRunning, Servers


def test_without_a_twin_it_is_said_how_to_start_one(tmp_path: Path) -> None:
    with pytest.raises(NotRunning) as error:
        Servers.running(TwinHome(tmp_path))
    assert str(error.value) == f"no twin is up at {tmp_path}; start it with `make up`, or set TWIN_HOME to where one is"


def test_a_twin_whose_processes_are_gone_is_not_taken_for_a_running_one(tmp_path: Path) -> None:
    endpoints = {"aws_url": "http://127.0.0.1:1", "kubeconfig": str(tmp_path / "kubeconfig")}
    (tmp_path / "endpoints.json").write_text(json.dumps(endpoints))
    with pytest.raises(NotRunning) as error:
        Servers.running(TwinHome(tmp_path))
    assert str(error.value) == (
        f"moto, etcd, kube-apiserver of the twin at {tmp_path} no longer run; `make up` starts them again"
    )


def install(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the fake `go` where the shell's programs look for Python packages."""
    packages = go_stand_in.install(machine, monkeypatch).parents[2]
    monkeypatch.setattr(servers, "REPOSITORY", f"{packages}:{REPOSITORY}")


def test_helm_in_the_shell_is_built_when_it_is_first_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch)
    servers._write_shell_programs(TwinHome(tmp_path / "home"), tmp_path / "kubectl")
    said = [
        subprocess.run([tmp_path / "home" / "bin" / "helm", "list", "-A"], capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    assert [done.stdout for done in said] == ["helm list -A\n"] * 2
    assert said[0].stderr.startswith("to build, once per machine: helm ") and said[1].stderr == ""
    assert len(go_stand_in.builds(tmp_path)) == 1


def test_helm_that_cannot_be_built_is_an_error_of_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch)
    monkeypatch.setenv("GO_FAILS", "yes")
    servers._write_shell_programs(TwinHome(tmp_path / "home"), tmp_path / "kubectl")
    done = subprocess.run([tmp_path / "home" / "bin" / "helm", "list"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "error: building helm from " in done.stderr


def test_aws_in_the_shell_is_the_one_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go_stand_in.install(tmp_path, monkeypatch)
    servers._write_shell_programs(TwinHome(tmp_path / "home"), tmp_path / "kubectl")
    aws = tmp_path / "home" / "bin" / "aws"
    done = subprocess.run([aws, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"aws-cli/{importlib.metadata.version('awscli')} ")
