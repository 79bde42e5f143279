"""Copies over HTTP and gRPC, sent to two servers, compared and counted. The servers are fake Tritons."""

from __future__ import annotations

import http.client
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from tritonclient.grpc.service_pb2 import ModelInferRequest

from modelctl.metrics_server import WrongAddress
from modelctl.rollout.copies import command, receiver
from modelctl.rollout.copies.asked import INFER, JSON_LENGTH, AskedRelease
from modelctl.rollout.copies.command import Addresses, Listen
from modelctl.rollout.copies.comparer import LARGEST_COPY, Comparer
from modelctl.rollout.copies.counts import FARTHEST, Result, parse
from spec.failure import Failure
from tests import http_server
from tests.modelctl.rollout.copies.triton_answers import binary_body, floats, message
from twin.host import processes

PATH = "/v2/models/m/infer"
SECRET = 4242.5


class Server:
    """A Triton with one answer, whose value, status and gRPC code a test sets; it records its requests."""

    def __init__(self, stack: ExitStack) -> None:
        self.value = 1.0
        self.status = 200
        self.code: grpc.StatusCode | None = None
        self.asked: list[tuple[str, bytes, dict[str, str]]] = []
        self.open = threading.Event()
        self.open.set()
        served = self

        class Answers(http_server.Handler):
            def do_POST(self) -> None:
                served.asked.append((self.path, self.body(), dict(self.headers)))
                served.open.wait(10)
                body, json_length = binary_body(OUT=floats(served.value))
                self.answer(served.status, body, **{JSON_LENGTH.replace("-", "_"): str(json_length)})

        self.http = stack.enter_context(http_server.listening(Answers)).url
        server = grpc.server(ThreadPoolExecutor(4), handlers=[_Handler(self)])
        self.grpc = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        server.start()
        stack.callback(lambda: server.stop(0).wait())


class _Handler(grpc.GenericRpcHandler):
    def __init__(self, server: Server) -> None:
        self._server = server

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        return grpc.unary_unary_rpc_method_handler(self._answer) if details.method == INFER else None

    def _answer(self, body: bytes, context: grpc.ServicerContext) -> bytes:
        self._server.asked.append(("grpc", body, {one.key: one.value for one in context.invocation_metadata()}))
        if self._server.code is not None:
            context.abort(self._server.code, f"about {SECRET}")
        return message(OUT=floats(self._server.value))


@dataclass
class Site:
    release: Server
    candidate: Server
    comparer: Comparer
    http: int
    channel: grpc.Channel
    said: list[str] = field(default_factory=list)

    def over_http(self, body: Any = b"{}", path: str = PATH, **headers: str) -> int:
        """Return the status of one client request."""
        connection = http.client.HTTPConnection("127.0.0.1", self.http, timeout=10)
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request("POST", path, body, named, encode_chunked=not isinstance(body, bytes))
            return connection.getresponse().status
        finally:
            connection.close()

    def over_grpc(self, model: str = "m", method: str = INFER) -> bytes:
        body = ModelInferRequest(model_name=model, id="7").SerializeToString()
        answered: bytes = self.channel.unary_unary(method)(body, timeout=10, metadata=(("authorization", "Bearer key"),))
        return answered

    def metrics(self) -> str:
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self.comparer)
        return generate_latest(registry).decode()

    def counts(self) -> Counter[Result]:
        return +parse(self.metrics())["m"]

    def until(self, **counts: int) -> None:
        wanted = Counter({Result(name): count for name, count in counts.items()})
        processes.wait_until(lambda: self.counts() == wanted, f"{wanted}", 20, poll=0.01)


Start = Callable[..., Site]


@pytest.fixture
def start() -> Iterator[Start]:
    with ExitStack() as stack:

        def started(tolerance: float = 0.1, **options: Any) -> Site:
            release, candidate = Server(stack), Server(stack)
            said: list[str] = []
            asked = [AskedRelease(one.http, one.grpc, 10) for one in (release, candidate)]
            for one in asked:
                stack.callback(one.close)
            comparer = Comparer(*asked, {"m": tolerance}, said.append, **options)
            stack.enter_context(comparer.working())
            port = stack.enter_context(receiver.over_grpc(comparer, "--grpc", "127.0.0.1", 0))
            http_port = stack.enter_context(receiver.http(comparer, "--http", "127.0.0.1", 0))
            channel = stack.enter_context(grpc.insecure_channel(f"127.0.0.1:{port}"))
            return Site(release, candidate, comparer, http_port, channel, said)

        yield started


def test_a_copy_is_asked_of_both_as_it_came_and_answered_with_nothing(start: Start) -> None:
    site = start()
    body = b'{"inputs": []}binary'
    headers = {
        "Content_Type": "application/octet-stream",
        JSON_LENGTH.replace("-", "_"): "14",
        "Authorization": "Bearer key",
    }
    assert site.over_http(body, "/v2/models/m/versions/3/infer?x=1", **headers) == 200
    assert site.over_grpc() == b""
    site.until(same=2)
    for server in (site.release, site.candidate):
        over_http, over_grpc = sorted(server.asked, key=lambda one: one[0])
        assert over_http[:2] == ("/v2/models/m/versions/3/infer", body)
        assert (over_http[2]["Content-Type"], over_http[2][JSON_LENGTH]) == ("application/octet-stream", "14")
        assert over_grpc[1] == ModelInferRequest(model_name="m", id="7").SerializeToString()
        assert "authorization" not in {name.lower() for name in (*over_http[2], *over_grpc[2])}, "a client's key stays here"
    assert site.said == []


@pytest.mark.parametrize("protocol", ["over_http", "over_grpc"])
def test_a_difference_is_counted_and_told_without_a_value(start: Start, protocol: str) -> None:
    site = start(0.1)
    site.candidate.value = 1.05
    getattr(site, protocol)()
    site.until(same=1)
    site.candidate.value = SECRET
    getattr(site, protocol)()
    site.until(same=1, different=1)
    assert site.said == ["m: different: OUT: 1 of 1 values, the farthest by 4.24e+03 (tolerance 0.1)"]
    assert f'{FARTHEST}{{model="m"}} 4241.5' in site.metrics()
    assert str(SECRET) not in "".join(site.said)


@pytest.mark.parametrize(
    ("release", "candidate", "result", "said"),
    [
        (200, 400, "different", "the candidate refuses what the release answers: HTTP 400"),
        (200, 500, "different", "the candidate refuses what the release answers: HTTP 500"),
        (200, 503, "unanswered", "the candidate gives no answer: HTTP 503"),
        (400, 200, "unanswered", "the release gives no answer: HTTP 400"),
        (400, 400, "unanswered", "the release gives no answer: HTTP 400"),
        (503, 500, "unanswered", "the release gives no answer: HTTP 503"),
    ],
)
def test_who_gives_no_answer_is_told(start: Start, release: int, candidate: int, result: str, said: str) -> None:
    site = start()
    site.release.status, site.candidate.status = release, candidate
    site.over_http()
    site.until(**{result: 1})
    assert site.said == [f"m: {result}: {said}"]


@pytest.mark.parametrize(
    ("code", "result", "said"),
    [
        (grpc.StatusCode.INTERNAL, "different", "the candidate refuses what the release answers: INTERNAL"),
        (grpc.StatusCode.UNAVAILABLE, "unanswered", "the candidate gives no answer: UNAVAILABLE"),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "unanswered", "the candidate gives no answer: DEADLINE_EXCEEDED"),
    ],
)
def test_so_it_is_over_grpc_without_the_servers_words(start: Start, code: grpc.StatusCode, result: str, said: str) -> None:
    site = start()
    site.candidate.code = code
    site.over_grpc()
    site.until(**{result: 1})
    assert site.said == [f"m: {result}: {said}"]


def test_copies_beyond_the_queue_are_dropped_and_counted_and_who_sent_them_does_not_wait(start: Start) -> None:
    site = start(most_copies=2)
    site.candidate.open.clear()
    assert [site.over_http() for _ in range(4)] == [200, 200, 503, 503]
    assert site.over_grpc() == b""
    site.until(dropped=3)
    site.candidate.open.set()
    site.until(dropped=3, same=2)
    assert site.over_http() == 200, "there is room again"
    site.until(dropped=3, same=3)


def test_a_body_without_a_length_is_taken_and_one_too_large_is_dropped(start: Start) -> None:
    site = start()
    assert site.over_http(iter([b"{", b"}"]), Transfer_Encoding="chunked") == 200
    site.until(same=1)
    assert site.release.asked[0][1] == b"{}"
    with socket.create_connection(("127.0.0.1", site.http)) as client:
        client.sendall(f"POST {PATH} HTTP/1.1\r\nContent-Length: {LARGEST_COPY + 1}\r\n\r\n".encode())
        assert client.recv(100).startswith(b"HTTP/1.1 503 ")
    with socket.create_connection(("127.0.0.1", site.http)) as client:
        client.sendall(f"POST {PATH} HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n{LARGEST_COPY + 1:x}\r\n".encode())
        assert client.recv(100).startswith(b"HTTP/1.1 400 ")
    site.until(same=1, dropped=2)
    assert [site.over_http() for _ in range(3)] == [200, 200, 200], "the room that they had is there again"
    site.until(same=4, dropped=2)


@pytest.mark.parametrize(
    "path",
    ["/v2/models/other/infer", "/v2/models/m/generate_stream", "/v2/models/m", "/v2/repository/models/m/unload", "/"],
)
def test_streams_other_models_and_all_else_are_refused_and_asked_of_nobody(start: Start, path: str) -> None:
    site = start()
    assert site.over_http(path=path) == 404
    with pytest.raises(grpc.RpcError) as refused:
        site.over_grpc("other")
    assert refused.value.code() is grpc.StatusCode.NOT_FOUND
    with pytest.raises(grpc.RpcError) as refused:
        site.over_grpc(method=INFER.replace("ModelInfer", "ModelStreamInfer"))
    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert (site.release.asked, site.candidate.asked, site.counts()) == ([], [], Counter())


def test_the_log_ends_where_everything_differs_and_the_counts_go_on(start: Start) -> None:
    site = start()
    site.candidate.value = 9.0
    for number in range(1, 31):
        site.over_http()
        site.until(different=number)
    assert len(site.said) == 20
    assert site.said[-1].endswith("; what comes is counted, and not told any more")


def test_each_model_has_every_count_from_the_start(start: Start) -> None:
    assert parse(start().metrics()) == {"m": Counter(dict.fromkeys(Result, 0))}


def test_a_port_that_is_taken_is_told(start: Start) -> None:
    site = start()
    for option, listening in (("--http", receiver.http), ("--grpc", receiver.over_grpc)):
        said = rf"^{option} 127\.0\.0\.1:{site.http}: .*; write an address and a free port"
        with pytest.raises(WrongAddress, match=said), listening(site.comparer, option, "127.0.0.1", site.http):
            pass


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"tolerance": ["m"]}, "--tolerance 'm': write MODEL=NUMBER, with a number from 0 to below 1, like classify=1e-5"),
        ({"tolerance": ["m=7"]}, "--tolerance 'm=7': write MODEL=NUMBER"),
        ({"tolerance": ["m=nan"]}, "--tolerance 'm=nan': write MODEL=NUMBER"),
        ({"release": Addresses("triton", "t:1")}, "--release-http 'triton' is no URL of a server; write one like http://"),
        ({"candidate": Addresses("http://t:1", "t")}, "--candidate-grpc 't' is no target of gRPC; write one like dns:///"),
        ({"proxy": "nowhere"}, "--http-proxy 'nowhere' is no URL; write one like http://127.0.0.1:8888"),
        ({"listen": Listen("here", "127.0.0.1:0", "127.0.0.1:0")}, "--http 'here' is no address; write ADDRESS:PORT"),
    ],
)
def test_options_that_cannot_be_are_told(changes: dict[str, Any], said: str) -> None:
    right = Addresses("http://127.0.0.1:9", "dns:///t.triton:9")
    other = Addresses("http://127.0.0.1:8", "dns:///c.triton:9")
    free = Listen("127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0")
    asked: dict[str, Any] = {"release": right, "candidate": other, "tolerance": ["m=0"], "listen": free, **changes}
    with pytest.raises(Failure) as failure:
        command.compare(asked["release"], asked["candidate"], asked["tolerance"], asked["listen"], 1, asked.get("proxy"))
    assert str(failure.value).startswith(said)
