"""Tokens of a kubeconfig's program, in requests to a server that returns the received token."""

from __future__ import annotations

import datetime
import json
import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.http_server import Handler, listening
from twin.cluster.kube_errors import ApiError
from twin.plugins import kubeconfig
from twin.plugins.errors import PluginError

ARGS = ("--region", "us-west-2", "eks", "get-token", "--cluster-name", "triton-local", "--output", "json")
"""As in `generateKubeconfig` of pulumi-eks (https://github.com/pulumi/pulumi-eks/blob/v4.3.0/nodejs/eks/cluster/cluster.ts).
"""
COUNTING = """
import json, os, pathlib, sys
runs = pathlib.Path(os.environ["RUNS"])
runs.write_text(runs.read_text() + "x" if runs.exists() else "x")
status = {"token": f"{os.environ['PREFIX']}-{len(runs.read_text())}", **json.loads(os.environ["STATUS"])}
print(json.dumps({"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1beta1", "status": status}))
"""


@dataclass
class Server:
    """An API server that records the tokens of its requests, and refuses some."""

    url: str = ""
    tokens: list[str] = field(default_factory=list)
    refuse: set[str] = field(default_factory=set)


@pytest.fixture
def server() -> Iterator[Server]:
    kept = Server()

    class Requests(Handler):
        def do_GET(self) -> None:
            token = self.headers["Authorization"].removeprefix("Bearer ")
            kept.tokens.append(token)
            self.answer(401 if token in kept.refuse else 200, b'{"gitVersion": "v1.36.2"}')

    with listening(Requests) as running:
        kept.url = running.url
        yield kept


@pytest.fixture
def aws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that puts a program named `aws` with this Python code on PATH."""
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))

    def put(code: str) -> None:
        (programs / "aws").write_text(f"#!{sys.executable}\n{code}", encoding="utf-8")
        (programs / "aws").chmod(0o755)

    return put


def _client(server: Server, *args: str, command: str = "aws", **variables: str) -> Any:
    env = [{"name": name, "value": value} for name, value in {"PREFIX": "t", **variables}.items()]
    user = {"exec": {"command": command, "args": list(args or ARGS), "env": env}}
    return kubeconfig.connect(
        {
            "current-context": "aws",
            "contexts": [{"name": "aws", "context": {"cluster": "kubernetes", "user": "aws"}}],
            "clusters": [{"name": "kubernetes", "cluster": {"server": server.url}}],
            "users": [{"name": "aws", "user": user}],
        }
    )


def _counting(server: Server, tmp_path: Path, aws: Callable[[str], None], **status: str) -> Any:
    aws(COUNTING)
    return _client(server, RUNS=str(tmp_path / "runs"), STATUS=json.dumps(status))


def test_the_program_runs_for_the_first_request_and_its_token_is_kept(
    server: Server, tmp_path: Path, aws: Callable[[str], None]
) -> None:
    tomorrow = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)
    client = _counting(server, tmp_path, aws, expirationTimestamp=tomorrow.strftime("%Y-%m-%dT%H:%M:%SZ"))
    assert not (tmp_path / "runs").exists()
    assert [client.version(), client.version()] == ["v1.36.2", "v1.36.2"]
    assert server.tokens == ["t-1", "t-1"]


def test_an_expired_token_is_replaced(server: Server, tmp_path: Path, aws: Callable[[str], None]) -> None:
    client = _counting(server, tmp_path, aws, expirationTimestamp="2026-01-01T00:00:00Z")
    client.version()
    client.version()
    assert server.tokens == ["t-1", "t-2"]


def test_a_token_without_an_end_is_replaced_once_it_is_refused(
    server: Server, tmp_path: Path, aws: Callable[[str], None]
) -> None:
    client = _counting(server, tmp_path, aws)
    server.refuse = {"t-1"}
    with pytest.raises(ApiError) as error:
        client.version()
    assert error.value.status == 401
    client.version()
    client.version()
    assert server.tokens == ["t-1", "t-2", "t-2"]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("raise SystemExit('no role')", "exited with 1: no role"),
        ("print('{}')", "printed no ExecCredential with a token"),
        ("print('token')", "printed no ExecCredential with a token"),
    ],
)
def test_a_program_that_has_no_token_is_named(server: Server, aws: Callable[[str], None], code: str, message: str) -> None:
    aws(code)
    with pytest.raises(PluginError, match=message) as error:
        _client(server).version()
    assert str(error.value).startswith("the kubeconfig's `aws --region us-west-2 eks get-token ")
    assert server.tokens == []


@pytest.mark.usefixtures("aws")
def test_a_program_that_is_not_there_is_named(server: Server) -> None:
    with pytest.raises(PluginError, match="No such file or directory") as error:
        _client(server).version()
    assert str(error.value).startswith("the kubeconfig's `aws --region us-west-2 eks get-token ")


@pytest.mark.parametrize(
    ("command", "args"),
    [
        ("sh", ("-c", "touch here")),
        ("/tmp/aws", ARGS),
        ("aws", ("s3", "rm", "eks", "get-token")),
        ("aws", ("--region", "eks", "get-token")),
        ("aws", ("eks", "update-kubeconfig", "--name", "get-token")),
    ],
)
def test_no_program_runs_but_aws_eks_get_token(server: Server, command: str, args: tuple[str, ...]) -> None:
    with pytest.raises(PluginError) as error:
        _client(server, *args, command=command)
    assert str(error.value) == (
        f"the kubeconfig's user runs `{shlex.join([command, *args])}`; the twin runs only `aws eks get-token`"
    )
