"""Whether an API server answers this machine, and the remedies if not."""

from __future__ import annotations

import base64
import socket

import pytest

from stackctl.account.api_server import ApiServer, silence, ways_in
from stackctl.tunnel.proxy import Proxy, Surroundings
from tests.spec.stack_config import REMOVED, settings
from tests.stackctl.conftest import HOST
from tests.stackctl.conftest import ApiServer as Server


def described(api: Server, host: str) -> ApiServer:
    return ApiServer("triton-staging", f"https://{host}/", base64.b64encode(api.authority).decode())


def test_it_answers_through_the_proxy_that_the_machine_has(api: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    proxy = Proxy(HOST, lambda: socket.create_connection(("127.0.0.1", api.port)), Surroundings(None, ""), said.append)
    monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.port}")
    try:
        assert silence(described(api, HOST)) is None
    finally:
        proxy.close()
    assert api.asked == [("/version", None)]
    assert said == []


def test_why_it_does_not_answer_is_told(api: Server) -> None:
    assert silence(described(api, "127.0.0.1:1")) == "[Errno 111] Connection refused"


def test_a_proxy_of_another_kind_is_not_gone_through(api: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "socks5://127.0.0.1:1")
    assert silence(described(api, "127.0.0.1:2")) == "[Errno 111] Connection refused"


def test_somebody_else_who_answers_is_not_the_api_server(api: Server) -> None:
    assert "IP address mismatch" in str(silence(described(api, f"127.0.0.1:{api.port}")))


@pytest.mark.parametrize("authority", ["no base64", base64.b64encode(b"no certificate").decode(), "/w=="])
def test_a_certificate_that_is_none_is_told(authority: str) -> None:
    assert (
        silence(ApiServer("triton-staging", f"https://{HOST}", authority))
        == "what EKS says of its certificate cannot be right"
    )


def test_what_to_do_depends_on_the_endpoint() -> None:
    tunnel = "go through a node: `python3 -m stackctl tunnel staging -- COMMAND` (docs/private-api.md)"
    assert ways_in(settings()) == f"come from a network or security group of cluster.apiAccess, or {tunnel}"
    public = {"cluster.endpoint": "public", "cluster.publicAccessCidrs": ["198.51.100.0/24"], "cluster.apiAccess": REMOVED}
    assert ways_in(settings(public)) == f"add the address of this machine to cluster.publicAccessCidrs, or {tunnel}"
