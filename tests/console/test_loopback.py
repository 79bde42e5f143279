"""The environment's proxy gets no request to this machine, from any client, by any name."""

import ast
import http.server
import threading
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import boto3
import grpc
import httpx
import pytest
from botocore.config import Config
from kubernetes.client import ApiClient, Configuration, VersionApi

from console import loopback, proxied
from tests.paths import ROOT

NAMES = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "grpc_proxy"]
POD = "127.244.3.7"
"""The twin's pods have loopback addresses like this one; exclusion lists contain at most their network."""


class Listener:
    """A server that records the first line of each request, and answers with `status`."""

    def __init__(self, status: int, address: str = "127.0.0.1") -> None:
        self.asked: list[str] = []
        asked = self.asked

        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self) -> None:
                asked.append(self.requestline)
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_GET = do_CONNECT = answer

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer((address, 0), Handler)
        self.url = f"http://{address}:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def proxy() -> Iterator[Listener]:
    listener = Listener(503)
    yield listener
    listener.close()


@pytest.fixture
def server() -> Iterator[Listener]:
    listener = Listener(200)
    yield listener
    listener.close()


@pytest.fixture
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*NAMES, *loopback.NO_PROXY]:
        for spelling in (name.lower(), name.upper(), name):
            monkeypatch.delenv(spelling, raising=False)


def by_urllib(url: str) -> None:
    urllib.request.build_opener().open(url, timeout=5)


def by_boto3(url: str) -> None:
    config = Config(retries={"total_max_attempts": 1})
    session = boto3.session.Session(aws_access_key_id="test", aws_secret_access_key="test")
    session.client("s3", endpoint_url=url, region_name="us-west-2", config=config).list_buckets()


def by_kubernetes(url: str) -> None:
    VersionApi(ApiClient(Configuration(host=url))).get_code(_request_timeout=5, _preload_content=False)


def by_httpx(url: str) -> None:
    httpx.get(url, timeout=5).raise_for_status()


HTTP: list[Callable[[str], None]] = [by_urllib, by_boto3, by_kubernetes, by_httpx]


def surround(monkeypatch: pytest.MonkeyPatch, name: str, proxy: Listener, **others: str) -> dict[str, str]:
    environ = {name: proxy.url, **others}
    for variable, value in environ.items():
        monkeypatch.setenv(variable, value)
    return environ


@pytest.mark.usefixtures("no_proxies")
@pytest.mark.parametrize("ask", HTTP)
@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"])
def test_no_proxy_is_asked_for_a_server_of_this_machine(
    monkeypatch: pytest.MonkeyPatch, proxy: Listener, server: Listener, name: str, ask: Callable[[str], None]
) -> None:
    for variable, value in loopback.direct(surround(monkeypatch, name, proxy)).items():
        monkeypatch.setenv(variable, value)
    ask(server.url)
    assert (len(server.asked), proxy.asked) == (1, [])


@pytest.mark.usefixtures("no_proxies")
@pytest.mark.parametrize("ask", [by_urllib, by_boto3, by_httpx])
def test_without_the_exception_the_proxy_is_asked(
    monkeypatch: pytest.MonkeyPatch, proxy: Listener, server: Listener, ask: Callable[[str], None]
) -> None:
    surround(monkeypatch, "HTTP_PROXY", proxy)
    with pytest.raises(Exception, match=r"503|Service Unavailable"):
        ask(server.url)
    assert server.asked == []
    assert len(proxy.asked) == 1


@pytest.mark.usefixtures("no_proxies")
@pytest.mark.parametrize("address", ["127.0.0.1", POD])
@pytest.mark.parametrize("name", ["grpc_proxy", "http_proxy", "https_proxy"])
def test_grpc_goes_to_every_loopback_address_itself(
    monkeypatch: pytest.MonkeyPatch, proxy: Listener, name: str, address: str
) -> None:
    for variable, value in loopback.direct(surround(monkeypatch, name, proxy)).items():
        monkeypatch.setenv(variable, value)
    with ThreadPoolExecutor(1) as pool:
        server = grpc.server(pool)
        port = server.add_insecure_port(f"{address}:0")
        server.start()
        with grpc.insecure_channel(f"{address}:{port}") as channel:
            grpc.channel_ready_future(channel).result(timeout=10)
        server.stop(None).wait()
    assert proxy.asked == []


def test_what_was_excepted_before_is_still_excepted_and_proxies_stay() -> None:
    environ = {
        "NO_PROXY": "example.com, .internal",
        "no_proxy": "10.0.0.0/8,example.com",
        "HTTPS_PROXY": "http://proxy:3128",
    }
    wanted = "example.com,.internal,10.0.0.0/8,localhost,127.0.0.1,127.0.0.0/8,::1"
    assert loopback.direct(environ) == {"NO_PROXY": wanted, "no_proxy": wanted, "no_grpc_proxy": wanted}
    assert loopback.direct({**environ, **loopback.direct(environ)}) == loopback.direct(environ)


def test_nothing_of_the_twin_asks_httpx_for_the_surroundings() -> None:
    """Even creating a client that trusts them fails if a proxy has a kind that httpx does not know, such as socks5.

    `console.proxied` reports that with a message.
    """
    trusting = [
        f"{path.relative_to(ROOT)}:{call.lineno}"
        for folder in ("twin", "modelctl", "stackctl")
        for path in Path(ROOT, folder).rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call)
        and ast.unparse(call.func) in {"httpx.Client", "httpx.AsyncClient", "httpx.get", "httpx.post"}
        and "trust_env=False" not in ast.unparse(call)
    ]
    assert trusting == []


@pytest.mark.parametrize("address", ["socks9://proxy.example.com:1080", "gopher://proxy.example.com", "http://[::1"])
def test_a_proxy_that_cannot_be_used_is_told(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", address)
    with pytest.raises(proxied.ProxyUnusable, match=": give one like http://proxy"):
        proxied.client()
