"""Ports of pods by port forwards: transferred data, and messages for a refused or lost forward.

The kubelet's end is the twin's. With a real API server: tests/system/serving/test_forwarded_rollout.py.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import httpx
import pytest

from console.port_forward import ForwardDenied, ForwardLost, PortClosed
from tests import forwarding, http_server
from tests.forwarding import ApiServer
from twin.host.processes import wait_until

POD_HOST = "127.0.0.1"


class _Pod(http_server.Handler):
    """Echoes its input; never answers to /hang."""

    protocol_version = "HTTP/1.1"
    requests = 0

    def do_GET(self) -> None:
        type(self).requests += 1
        self.answer(200, f"{self.headers['Host']} {self.path}".encode())

    def do_POST(self) -> None:
        type(self).requests += 1
        body = self.body()
        if self.path == "/hang":
            self.rfile.read(1)
        self.answer(200, body)


@pytest.fixture
def pod() -> Iterator[http_server.Server]:
    _Pod.requests = 0
    with http_server.listening(_Pod) as server:
        yield server


@pytest.fixture
def api() -> Iterator[ApiServer]:
    with forwarding.api_server({"triton-a": POD_HOST}) as server:
        yield server


@contextmanager
def http_to(api: ApiServer, seconds: float = 20) -> Iterator[httpx.Client]:
    with httpx.Client(transport=api.forwards().transport(), timeout=seconds) as client:
        yield client


def test_a_pod_is_asked_by_its_name(api: ApiServer, pod: http_server.Server) -> None:
    with http_to(api) as client:
        found = client.get(f"http://triton-a:{pod.server_port}/v2/health/ready")
    assert (found.status_code, found.text) == (200, f"triton-a:{pod.server_port} /v2/health/ready")


@pytest.mark.parametrize("size", [0, 1, 126, 65_536, 3_000_000])
def test_bytes_come_and_go_whatever_their_number(api: ApiServer, pod: http_server.Server, size: int) -> None:
    sent = bytes(index % 251 for index in range(size))
    with http_to(api) as client:
        assert client.post(f"http://triton-a:{pod.server_port}/", content=sent).content == sent


def test_one_forward_carries_the_requests_of_a_client(api: ApiServer, pod: http_server.Server) -> None:
    with http_to(api) as client:
        for _ in range(5):
            client.get(f"http://triton-a:{pod.server_port}/")
    assert len(api.requests) == 1


def test_a_forward_that_was_lost_while_nothing_was_asked_is_opened_anew(api: ApiServer, pod: http_server.Server) -> None:
    with forwarding.network("127.0.0.1", urlsplit(api.url).port or 0) as network:
        far, api.url = api.url, network.url
        with http_to(api) as client:
            url = f"http://triton-a:{pod.server_port}/"
            client.get(url)
            assert network.lose() == 1
            wait_until(lambda: all(one.has_expired() for one in client._transport._pool.connections), "the reset", 20)
            assert client.get(url).status_code == 200
        api.url = far
    assert (_Pod.requests, len(api.requests)) == (2, 2)


def test_a_pod_that_is_gone_is_told_from_a_way_that_is_lost(api: ApiServer) -> None:
    with http_to(api) as client, pytest.raises(PortClosed) as failure:
        client.get("http://triton-b:8000/")
    assert str(failure.value) == 'pod triton-b has no port 8000 to reach (404: pods "triton-b" not found)'


def test_a_port_on_which_nothing_listens_is_closed(api: ApiServer) -> None:
    with socket.socket() as taken:
        taken.bind((POD_HOST, 0))
        port = taken.getsockname()[1]
        with (
            http_to(api) as client,
            pytest.raises(PortClosed, match=rf"^pod triton-a: port {port} is closed: .*connection refused$"),
        ):
            client.get(f"http://triton-a:{port}/")


@pytest.mark.parametrize("status", [401, 403])
def test_who_may_not_forward_is_told_the_verbs(api: ApiServer, status: int) -> None:
    api.refusals = [status]
    with pytest.raises(ForwardDenied) as failure:
        api.forwards().connect("triton-a", 8000)
    assert str(failure.value) == (
        f"the cluster at {api.url} answers {status}: not now; this needs get and create of pods/portforward in the "
        "namespace triton (docs/private-api.md#pods)"
    )


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_an_api_server_or_kubelet_in_trouble_says_nothing_of_the_pod(api: ApiServer, status: int) -> None:
    api.refusals = [status]
    with pytest.raises(
        ForwardLost, match=rf"^pod triton-a: its port 8000 is not forwarded \({status}: not now\)$"
    ) as failure:
        api.forwards().connect("triton-a", 8000)
    assert not failure.value.in_flight


def test_an_api_server_that_is_away_says_nothing_of_the_pod(api: ApiServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        api.url = f"http://127.0.0.1:{server.getsockname()[1]}"
    with pytest.raises(
        ForwardLost, match=rf"^pod triton-a: the API server at {api.url} forwards nothing: .*refused"
    ) as failure:
        api.forwards().connect("triton-a", 8000)
    assert not failure.value.in_flight


def test_an_api_server_that_does_not_answer_is_not_waited_for_longer(api: ApiServer) -> None:
    api.silent = True
    began = time.monotonic()
    with pytest.raises(ForwardLost, match="timed out"):
        api.forwards().connect("triton-a", 8000, 0.2)
    assert time.monotonic() - began < 15


def test_a_request_that_is_lost_with_its_forward_is_in_flight(api: ApiServer, pod: http_server.Server) -> None:
    with forwarding.network("127.0.0.1", urlsplit(api.url).port or 0) as network:
        api.url = network.url
        with http_to(api) as client, pytest.raises(ForwardLost, match="the API server's port forward was lost") as failure:
            threading.Thread(target=_lose_when_asked, args=(network,), daemon=True).start()
            client.post(f"http://triton-a:{pod.server_port}/hang")
    assert failure.value.in_flight
    assert _Pod.requests == 1


def _lose_when_asked(network: forwarding.Network) -> None:
    deadline = time.monotonic() + 20
    while not _Pod.requests and time.monotonic() < deadline:
        time.sleep(0.01)
    network.lose()


def test_an_answer_that_does_not_come_in_time_is_a_time_out(api: ApiServer, pod: http_server.Server) -> None:
    with http_to(api, seconds=0.2) as client, pytest.raises(httpx.ReadTimeout):
        client.post(f"http://triton-a:{pod.server_port}/hang")


def test_each_forward_has_the_credentials_of_then(api: ApiServer, pod: http_server.Server) -> None:
    forwards = api.forwards()
    configuration = forwards._api.configuration
    tokens = iter(["Bearer one", "Bearer two"])
    configuration.api_key["BearerToken"] = "expired"
    configuration.refresh_api_key_hook = lambda found: found.api_key.update(BearerToken=next(tokens))
    for _ in range(2):
        forwards.connect("triton-a", pod.server_port).close()
    assert [headers["authorization"] for headers in api.requests] == ["Bearer one", "Bearer two"]


def test_a_client_with_sockets_of_its_own_has_a_port_of_this_machine(api: ApiServer, pod: http_server.Server) -> None:
    sent = bytes(index % 251 for index in range(1_000_000))
    with api.forwards().listening("triton-a", pod.server_port) as address:
        with httpx.Client(timeout=20, trust_env=False) as one, httpx.Client(timeout=20, trust_env=False) as other:
            assert [client.post(f"http://{address}/", content=sent).content for client in (one, other)] == [sent, sent]
        assert len(api.requests) == 2
        host, _, port = address.partition(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), timeout=5)


def test_behind_the_port_of_this_machine_a_lost_forward_ends_the_connection(api: ApiServer) -> None:
    with api.forwards().listening("triton-b", 8000) as address:
        host, _, port = address.partition(":")
        with socket.create_connection((host, int(port)), timeout=20) as sock:
            assert sock.recv(1) == b""
