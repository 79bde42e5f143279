"""What a command says that needs a running twin and finds none."""

import json
from pathlib import Path

import pytest

from twin.host.home import TwinHome
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
