"""Ports of pods through `stackctl tunnel`, also with a killed session: repeated requests, and messages."""

from __future__ import annotations

import json
import os
import signal
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from console.port_forward import PortForwards
from modelctl import cluster as kubernetes
from modelctl.rollout.fleet import Pod
from modelctl.rollout.pod_client import ForwardBroke, PodClient
from tests import forwarding, http_server
from tests.forwarding import ApiServer
from tests.stackctl.tunnel.conftest import Programs
from tests.stackctl.tunnel.test_tunnel import _opened

METRICS = b'nv_inference_request_success{model="m",version="1"} 7\n'


class _Triton(http_server.Handler):
    """Answers after killing the session, while `kills` lasts."""

    requests: list[str] = []  # noqa: RUF012 - of the class, so that a test sees it
    kills = 0
    programs: Programs

    def do_GET(self) -> None:
        self._answer(METRICS)

    def do_POST(self) -> None:
        self.body()
        self._answer(json.dumps({"outputs": []}).encode())

    def _answer(self, content: bytes) -> None:
        type(self).requests.append(f"{self.command} {self.path}")
        if self.kills:
            type(self).kills -= 1
            os.killpg(int(self.programs.sessions()[-1]["pid"]), signal.SIGKILL)
        self.answer(200, content)


@pytest.fixture
def triton(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> Iterator[http_server.Server]:
    monkeypatch.setattr(_Triton, "requests", [])
    monkeypatch.setattr(_Triton, "kills", 0)
    monkeypatch.setattr(_Triton, "programs", programs, raising=False)
    with http_server.listening(_Triton) as server:
        yield server


@pytest.fixture
def forwarding_api(programs: Programs, tmp_path: Path) -> Iterator[ApiServer]:
    """Yield an API server with the certificate of EKS's name, at the end of the session."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "server.pem", tmp_path / "server.key")
    with forwarding.api_server({"triton-a": "127.0.0.1"}, tls) as server:
        (programs.folder / "port").write_text(server.url.rpartition(":")[2])
        yield server


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def pod(
    cluster: str,
    node: Callable[..., str],
    forwarding_api: ApiServer,
    triton: http_server.Server,
    told: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Pod]:
    """Yield a pod that modelctl reaches with the tunnel's HTTPS_PROXY and KUBECONFIG; the API server's name has no DNS
    record.
    """
    node()
    with _opened() as through:
        content = yaml.safe_load(Path(through["KUBECONFIG"]).read_text())
        content["clusters"][0]["cluster"].pop("proxy-url", None)
        (tmp_path / "kubeconfig").write_text(yaml.safe_dump(content))
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
        monkeypatch.setenv("HTTPS_PROXY", through["HTTPS_PROXY"])
        monkeypatch.setenv("NO_PROXY", "localhost,127.0.0.1")
        forwards = PortForwards(kubernetes.connect(), "triton", told.append)
        url = f"http://triton-a:{triton.server_port}"
        yield Pod("triton-a", "uid-a", http=url, metrics=url, admin_key=lambda: "uid-a", forwards=forwards)


def test_a_forward_goes_through_the_proxy_of_the_environment(
    pod: Pod, forwarding_api: ApiServer, programs: Programs, told: list[str]
) -> None:
    with PodClient(pod) as client:
        assert client.infer("m", 1, {}) == {"outputs": []}
    (request,) = forwarding_api.requests
    assert request["authorization"] == "Bearer token-of-triton-staging"
    assert (len(programs.sessions()), told) == (1, [])


def test_a_request_that_reads_is_sent_again_when_the_session_was_killed(
    pod: Pod, programs: Programs, told: list[str]
) -> None:
    _Triton.kills = 1
    with PodClient(pod) as client:
        client.counters()
    assert _Triton.requests == ["GET /metrics"] * 2
    assert len(programs.sessions()) == 2
    assert [line.endswith("; GET /metrics is sent again") for line in told] == [True]


def test_an_inference_in_a_killed_session_is_told_as_unknown_and_the_next_one_is_answered(
    pod: Pod, programs: Programs, told: list[str]
) -> None:
    _Triton.kills = 1
    with PodClient(pod) as client:
        with pytest.raises(ForwardBroke, match="the API server's port forward was lost"):
            client.infer("m", 1, {})
        assert client.infer("m", 1, {}) == {"outputs": []}
    assert _Triton.requests == ["POST /v2/models/m/versions/1/infer"] * 2
    assert len(programs.sessions()) == 2
    assert told[0].endswith("; whether the pod has done what it was asked for is not known")
    # Opened before the proxy saw the end of the session: no data had been sent.
    assert all(line.endswith("; POST /v2/models/m/versions/1/infer is sent again") for line in told[1:])
