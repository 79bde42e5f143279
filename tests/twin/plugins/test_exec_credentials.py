"""Tokens of a kubeconfig's program, in requests to a server that says which token it got."""

from __future__ import annotations

import datetime
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.http_server import Handler, listening
from twin.cluster.kube_errors import ApiError
from twin.plugins import kubeconfig
from twin.plugins.errors import PluginError

COUNTING = """
import json, os, pathlib, sys
runs = pathlib.Path(sys.argv[1])
runs.write_text(runs.read_text() + "x" if runs.exists() else "x")
status = {"token": f"{os.environ['PREFIX']}-{len(runs.read_text())}", **json.loads(sys.argv[2])}
print(json.dumps({"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1beta1", "status": status}))
"""


@dataclass
class Server:
    """An API server that keeps the tokens of its requests, and refuses some."""

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


def _client(server: Server, *args: str, command: str = sys.executable) -> Any:
    user = {"exec": {"command": command, "args": list(args), "env": [{"name": "PREFIX", "value": "t"}]}}
    return kubeconfig.connect(
        {
            "current-context": "aws",
            "contexts": [{"name": "aws", "context": {"cluster": "kubernetes", "user": "aws"}}],
            "clusters": [{"name": "kubernetes", "cluster": {"server": server.url}}],
            "users": [{"name": "aws", "user": user}],
        }
    )


def _counting(server: Server, tmp_path: Path, **status: str) -> Any:
    return _client(server, "-c", COUNTING, str(tmp_path / "runs"), json.dumps(status))


def test_the_program_runs_for_the_first_request_and_its_token_is_kept(server: Server, tmp_path: Path) -> None:
    tomorrow = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)
    client = _counting(server, tmp_path, expirationTimestamp=tomorrow.strftime("%Y-%m-%dT%H:%M:%SZ"))
    assert not (tmp_path / "runs").exists()
    assert [client.version(), client.version()] == ["v1.36.2", "v1.36.2"]
    assert server.tokens == ["t-1", "t-1"]


def test_an_expired_token_is_replaced(server: Server, tmp_path: Path) -> None:
    client = _counting(server, tmp_path, expirationTimestamp="2026-01-01T00:00:00Z")
    client.version()
    client.version()
    assert server.tokens == ["t-1", "t-2"]


def test_a_token_without_an_end_is_replaced_once_it_is_refused(server: Server, tmp_path: Path) -> None:
    client = _counting(server, tmp_path)
    server.refuse = {"t-1"}
    with pytest.raises(ApiError) as error:
        client.version()
    assert error.value.status == 401
    client.version()
    client.version()
    assert server.tokens == ["t-1", "t-2", "t-2"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("-c", "raise SystemExit('no role')"), "exited with 1: no role"),
        (("-c", "print('{}')"), "printed no ExecCredential with a token"),
        (("-c", "print('token')"), "printed no ExecCredential with a token"),
    ],
)
def test_a_program_that_has_no_token_is_named(server: Server, args: tuple[str, ...], message: str) -> None:
    with pytest.raises(PluginError, match=message) as error:
        _client(server, *args).version()
    assert str(error.value).startswith(f"the kubeconfig's `{sys.executable} -c ")
    assert server.tokens == []


def test_a_program_that_is_not_there_is_named(server: Server) -> None:
    with pytest.raises(PluginError, match="No such file or directory") as error:
        _client(server, command="no-such-program").version()
    assert str(error.value).startswith("the kubeconfig's `no-such-program` for credentials failed: ")
