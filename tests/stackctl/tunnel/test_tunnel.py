"""The tunnel to a private API server: a program through it, refusals, and no leftovers."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import kubernetes
import pytest
from moto.server import ThreadedMotoServer

from stackctl.account.guard import caller
from stackctl.account.read_only import Readers
from stackctl.preflight.checks import api_access
from stackctl.preflight.checks.check import Status, Subject
from stackctl.tunnel import command
from stackctl.tunnel.cluster import api_server_of, system_nodes
from stackctl.tunnel.operations import OPERATIONS
from stackctl.tunnel.proxy import Surroundings, variables
from stackctl.tunnel.ssm import Session, TunnelUnusable
from tests.command import run
from tests.spec.stack_config import settings
from tests.stackctl.conftest import HOST, ApiServer
from tests.stackctl.tunnel.conftest import REGION, Programs
from twin.host.processes import wait_until

# A program that does not know the tunnel: the real name, the real certificate, HTTPS_PROXY.
_ASK = """\
import json, os, ssl, sys, urllib.request
cluster = json.load(open(os.environ["KUBECONFIG"]))["clusters"][0]["cluster"]
import base64
context = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
answer = json.load(urllib.request.urlopen(cluster["server"] + "/version", context=context, timeout=20))
open(sys.argv[1], "w").write(answer["gitVersion"])
sys.exit(7)
"""


@pytest.fixture
def through(cluster: str, node: Callable[..., str], programs: Programs) -> Iterator[Mapping[str, str]]:
    """Yield the environment of a program that uses an open tunnel to staging."""
    node()
    with _opened() as variables:
        yield variables


def _opened() -> Any:
    stack, readers = settings(), Readers(REGION, OPERATIONS)
    return command._tunnel(stack, readers, api_server_of(stack, readers), Surroundings.of(os.environ))


def _client(through: Mapping[str, str], api: ApiServer, tmp_path: Path) -> httpx.Client:
    (tmp_path / "ca.pem").write_bytes(api.authority)
    context = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    return httpx.Client(proxy=through["HTTPS_PROXY"], verify=context, trust_env=False, timeout=20)


def test_a_program_goes_through_it_and_its_exit_code_is_the_commands(
    cluster: str, node: Callable[..., str], programs: Programs, tmp_path: Path
) -> None:
    through = node()
    ended = run("stackctl", "tunnel", "staging", "--", sys.executable, "-c", _ASK, tmp_path / "answer")
    assert (ended.exit_code, ended.output) == (7, "")
    assert (tmp_path / "answer").read_text() == "v1.35.2-eks"
    (session,) = programs.sessions()
    assert session["arguments"] == [
        *("ssm", "start-session", "--region", "us-west-2", "--target", through),
        *("--document-name", "AWS-StartPortForwardingSessionToRemoteHost"),
        *("--parameters", json.dumps({"host": [HOST], "portNumber": ["443"]})),
    ]
    assert programs.ended() == 1


def test_the_kubernetes_client_takes_the_kubeconfig_as_it_is(through: Mapping[str, str], api: ApiServer) -> None:
    made = kubernetes.config.new_client_from_config(config_file=through["KUBECONFIG"])
    assert made.configuration.proxy == through["HTTPS_PROXY"]
    assert kubernetes.client.VersionApi(made).get_code().git_version == "v1.35.2-eks"
    assert api.asked == [("/version/", "Bearer token-of-triton-staging")]


def test_preflight_says_that_the_api_server_answers_through_it(
    through: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", through["HTTPS_PROXY"])
    monkeypatch.setenv("NO_PROXY", "")
    readers = Readers(REGION, OPERATIONS)
    _, finding = api_access.check(Subject(settings(), readers, caller(readers)))
    assert (finding.status, finding.message) == (Status.OK, f"{HOST} answers this machine")


def test_a_connection_that_comes_at_the_end_begins_no_session() -> None:
    def begin() -> Session:
        raise AssertionError("a session was begun")

    way = command.Way(begin)
    way.close()
    with pytest.raises(TunnelUnusable, match="the tunnel is closed"):
        way.connect()


def test_nothing_of_it_stays(cluster: str, node: Callable[..., str], programs: Programs) -> None:
    node()
    with _opened() as through:
        (session,) = programs.sessions()
        os.kill(int(session["pid"]), 0)
    assert not Path(through["KUBECONFIG"]).parent.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(int(session["pid"]), 0)
    with pytest.raises(httpx.ConnectError):
        httpx.get("http://127.0.0.1:" + through["HTTPS_PROXY"].rpartition(":")[2], trust_env=False)


def test_a_session_that_has_ended_is_begun_anew(
    through: Mapping[str, str], api: ApiServer, programs: Programs, tmp_path: Path
) -> None:
    for sessions in (1, 2):
        with _client(through, api, tmp_path) as client:
            assert client.get(f"https://{HOST}/version").json()["gitVersion"] == "v1.35.2-eks"
        assert len(programs.sessions()) == sessions
        pid = int(programs.sessions()[-1]["pid"])
        os.killpg(pid, signal.SIGKILL)
        wait_until(lambda pid=pid: _is_gone(pid), f"the end of {pid}", 20)  # type: ignore[misc]


def _is_gone(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z" if Path(f"/proc/{pid}").exists() else True


def test_other_hosts_are_reached_as_ever_and_through_the_proxy_that_there_is(
    cluster: str, node: Callable[..., str], programs: Programs, api: ApiServer, tmp_path: Path, monkeypatch: Any
) -> None:
    node()
    other = f"https://localhost:{api.port}/version"
    with _opened() as outer, _client(outer, api, tmp_path) as client:
        with pytest.raises(httpx.ConnectError, match="Hostname mismatch"):  # reached, with a wrong identity
            client.get(other)
        monkeypatch.setenv("HTTPS_PROXY", outer["HTTPS_PROXY"])
        with _opened() as inner, _client(inner, api, tmp_path) as nested:
            with pytest.raises(httpx.ConnectError, match="Hostname mismatch"):
                nested.get(other)
            with pytest.raises(httpx.ProxyError, match="502 Bad Gateway"):
                nested.get("https://localhost:1/")
            monkeypatch.undo()
    assert len(programs.sessions()) == 2  # one each, and none for the other host
    assert api.asked == []


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (b"GET http://169.254.169.254/latest/ HTTP/1.1\r\n\r\n", b"HTTP/1.1 405 Method Not Allowed\r\n"),
        (b"CONNECT a b:443 HTTP/1.1\r\n\r\n", b"HTTP/1.1 405 Method Not Allowed\r\n"),
        (b"CONNECT localhost:99999 HTTP/1.1\r\n\r\n", b"HTTP/1.1 502 Bad Gateway\r\n"),
        (b"CONNECT localhost:0 HTTP/1.1\r\n\r\n", b"HTTP/1.1 502 Bad Gateway\r\n"),
        (b"CONNECT a..b:443 HTTP/1.1\r\n\r\n", b"HTTP/1.1 502 Bad Gateway\r\n"),
    ],
)
def test_what_is_no_connection_to_a_host_is_refused(through: Mapping[str, str], asked: bytes, answer: bytes) -> None:
    with socket.create_connection(("127.0.0.1", int(through["HTTPS_PROXY"].rpartition(":")[2])), timeout=20) as connection:
        connection.sendall(asked)
        assert connection.makefile("rb").readline() == answer


def test_a_node_that_lets_no_session_in_is_left_out(cluster: str, node: Callable[..., str], programs: Programs) -> None:
    node(), node()
    first, second = system_nodes(settings(), Readers(REGION, OPERATIONS))
    programs.refuses(first)
    with _opened():
        assert [call["arguments"][call["arguments"].index("--target") + 1] for call in programs.sessions()] == [
            first,
            second,
        ]
    programs.refuses(first, second)
    ended = run("stackctl", "tunnel", "staging")
    said = "An error occurred (TargetNotConnected): i is not connected."
    assert (ended.exit_code, ended.stderr) == (
        2,
        f"error: no session through {first}: {said}; no session through {second}: {said}\n",
    )


def test_before_there_is_a_cluster_or_a_node_it_says_what_to_do(
    account: None, programs: Programs, request: pytest.FixtureRequest
) -> None:
    ended = run("stackctl", "tunnel", "staging")
    assert (ended.exit_code, ended.stderr) == (
        2,
        "error: triton-staging in us-west-2 has no API server yet: `pulumi up --stack staging` makes it and its nodes and "
        "ends where it does not reach it; then run it again through the tunnel\n",
    )
    request.getfixturevalue("cluster")
    request.getfixturevalue("node")(project="another")
    ended = run("stackctl", "tunnel", "staging")
    assert (ended.exit_code, ended.stderr) == (
        2,
        "error: no system node of triton-staging runs (instances triton-staging-system), and a session of SSM goes through "
        "one: `pulumi up --stack staging` makes them; what is left of a stack without nodes needs no tunnel\n",
    )
    assert programs.sessions() == []


def test_without_the_programs_it_says_where_one_gets_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    ended = run("stackctl", "tunnel", "staging")
    assert (ended.exit_code, ended.stderr) == (
        2,
        "error: the tunnel needs on PATH, and does not find: "
        "aws (https://docs.aws.amazon.com/cli/latest/userguide/getting-started-install.html), session-manager-plugin "
        "(https://docs.aws.amazon.com/systems-manager/latest/userguide/session-manager-working-with-install-plugin.html)\n",
    )


@pytest.mark.parametrize(
    ("no_proxy", "kept", "s3_by_proxy"),
    [
        ("", [], True),
        ("*", [], False),
        (".amazonaws.com,10.0.0.0/8", ["10.0.0.0/8"], False),
        (f"{HOST},internal.example.com", ["internal.example.com"], True),
    ],
)
def test_the_api_server_is_never_excepted_from_the_proxy_and_others_stay_so(
    no_proxy: str, kept: list[str], s3_by_proxy: bool
) -> None:
    given = {"NO_PROXY": no_proxy, "https_proxy": "http://proxy.example.com:3128"}
    made = variables(given, HOST, 4711)
    assert {made[name] for name in ("HTTPS_PROXY", "https_proxy")} == {"http://127.0.0.1:4711"}
    assert made["NO_PROXY"].split(",") == [*kept, "localhost", "127.0.0.1", "127.0.0.0/8", "::1"]
    assert not Surroundings.without_proxy(HOST, made["NO_PROXY"])
    # No longer excepted, it goes to the tunnel's proxy, which connects without the other proxy.
    reached_by = Surroundings.of(given).proxy_for("s3.us-west-2.amazonaws.com")
    assert reached_by == (("proxy.example.com", 3128) if s3_by_proxy else None)


@pytest.mark.parametrize(
    ("proxy", "sentence"),
    [
        (
            "https://proxy.example.com",
            "HTTPS_PROXY is no address of an http proxy; give one like http://proxy.example.com:3128",
        ),
        (
            "http://me:" + "secret@proxy.example.com:3128",
            "HTTPS_PROXY has a login in it, which the tunnel would lend to everybody on this machine; give a proxy without "
            "one, or unset it",
        ),
    ],
)
def test_a_proxy_that_cannot_be_gone_through_is_a_sentence(proxy: str, sentence: str) -> None:
    with pytest.raises(TunnelUnusable) as refused:
        Surroundings.of({"HTTPS_PROXY": proxy})
    assert str(refused.value) == sentence


@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "https_proxy"])
@pytest.mark.parametrize(
    "address",
    [
        "http://proxy:99999",
        "http://proxy:abc",
        "http://proxy:0",
        "http://[::1",
        "http://[x]:3128",
        "proxy:-1",
        "http://:3128",
    ],
)
def test_a_malformed_proxy_names_the_variable_and_the_right_form(variable: str, address: str) -> None:
    with pytest.raises(TunnelUnusable) as refused:
        Surroundings.of({variable: address})
    assert str(refused.value) == (f"{variable} is no address of an http proxy; give one like http://proxy.example.com:3128")


@pytest.mark.parametrize(
    ("address", "proxy"),
    [("http://proxy:3128", ("proxy", 3128)), ("proxy", ("proxy", 80)), ("http://[::1]:3128", ("::1", 3128))],
)
def test_an_address_of_a_proxy_may_leave_out_scheme_and_port(address: str, proxy: tuple[str, int]) -> None:
    assert Surroundings.of({"https_proxy": address}).proxy == proxy


@pytest.mark.parametrize(
    "program", [None, "import signal; signal.signal(2, lambda *_: exit(5)); print(flush=True); signal.pause()"]
)
def test_ctrl_c_ends_a_tunnel_that_stays_and_leaves_that_of_a_program_to_the_program(
    cluster: str, node: Callable[..., str], programs: Programs, program: str | None
) -> None:
    node()
    aws = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    aws.start()
    command_line = [sys.executable, "-m", "stackctl", "tunnel", "staging"]
    try:
        process = subprocess.Popen(
            [*command_line, "--", sys.executable, "-c", program] if program else command_line,
            env={**os.environ, "AWS_ENDPOINT_URL": "http://{}:{}".format(*aws.get_host_and_port())},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # a terminal's Ctrl-C goes to its whole group
        )
        assert process.stdout is not None
        line = process.stdout.readline()
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    finally:
        aws.stop()
    assert process.returncode == (5 if program else 0), errors
    assert programs.ended() == 1
    if not program:
        assert line.startswith("export KUBECONFIG=/")
        assert errors.splitlines()[-1] == "closed"
