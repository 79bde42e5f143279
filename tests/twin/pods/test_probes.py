import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from tests import http_server
from twin.pods.probes import Probe, Verdict, ask


class Handler(http_server.Handler):
    requests: list[tuple[str, str | None, str | None]] = []  # noqa: RUF012 - shared on purpose

    def do_GET(self) -> None:
        type(self).requests.append((self.path, self.headers.get("X-Key"), self.headers.get("Connection")))
        self.answer(int(self.path.rpartition("/")[2]))


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with http_server.listening(Handler) as server:
        yield server.server_port


def asked(handler: dict[str, Any]) -> tuple[bool, str]:
    # The default of 1 s suits a server; a busy machine may need longer for both sides here.
    probe = Probe("readiness", handler, timeout=30)
    return asyncio.run(ask(probe, "127.0.0.1", lambda port: int(port)))


def test_absent_fields_have_kubernetes_defaults() -> None:
    probe = Probe.parse("readiness", {"tcpSocket": {"port": 1}})
    assert probe is not None
    assert (probe.initial_delay, probe.period, probe.timeout) == (0, 10, 1)
    assert (probe.success_threshold, probe.failure_threshold, probe.grace_period) == (1, 3, None)
    assert Probe.parse("readiness", None) is None


@pytest.mark.parametrize(
    ("success", "failure", "answers", "verdicts"),
    [
        (1, 3, "xxx", [None, None, False]),
        (1, 3, "xx.xxx", [None, None, True, None, None, False]),
        (2, 1, "..x..", [None, True, False, None, True]),
        (1, 1, ".x.", [True, False, True]),
        (1, 2, "xxxx", [None, False, False, False]),
    ],
)
def test_thresholds_count_answers_in_a_row(success: int, failure: int, answers: str, verdicts: list[bool | None]) -> None:
    verdict = Verdict(Probe("x", {}, success_threshold=success, failure_threshold=failure))
    assert [verdict.record(answer == ".") for answer in answers] == verdicts


@pytest.mark.parametrize(("status", "success"), [(200, True), (302, True), (399, True), (400, False), (503, False)])
def test_http_succeeds_from_200_to_399(port: int, status: int, success: bool) -> None:
    answered, said = asked({"httpGet": {"port": port, "path": f"/{status}"}})
    assert answered is success
    assert said.endswith(str(status))


def test_http_sends_its_headers_and_keeps_no_connection(port: int) -> None:
    asked({"httpGet": {"port": port, "path": "x/200", "httpHeaders": [{"name": "X-Key", "value": "k"}]}})
    assert Handler.requests[-1] == ("/x/200", "k", "close")


def test_http_without_a_server_fails() -> None:
    success, said = asked({"httpGet": {"port": 1, "path": "/v2/health/live"}})
    assert not success
    assert said.startswith("GET /v2/health/live: ConnectError")


def test_a_server_that_accepts_and_says_nothing_times_out() -> None:
    async def run() -> tuple[bool, str]:
        server = await asyncio.start_server(lambda r, w: asyncio.sleep(30), "127.0.0.1", 0)
        silent = server.sockets[0].getsockname()[1]
        probe = Probe("liveness", {"httpGet": {"port": silent}}, timeout=0.2)
        answer = await ask(probe, "127.0.0.1", lambda port: int(port))
        server.close()
        return answer

    success, said = asyncio.run(run())
    assert not success
    assert "Timeout" in said


def test_tcp_is_about_the_connection_only(port: int) -> None:
    assert asked({"tcpSocket": {"port": port}}) == (True, "")
    success, said = asked({"tcpSocket": {"port": 1}})
    assert not success
    assert said.startswith("dial tcp 127.0.0.1:1: ")


def test_grpc_without_a_server_fails() -> None:
    success, said = asked({"grpc": {"port": 1}})
    assert not success
    assert said.startswith("gRPC health check: ")
