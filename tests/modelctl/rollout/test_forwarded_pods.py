"""Pods behind a lost port forward: repeated requests, messages, and no effect on a model's evaluation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from console.port_forward import PortForwards
from modelctl.rollout import pod_client
from modelctl.rollout.controller import Controller, Wanted
from modelctl.rollout.fleet import FleetError, Pod
from modelctl.rollout.limits import Limits
from modelctl.rollout.metrics import Counters
from modelctl.rollout.phases import Phases
from modelctl.rollout.pod_client import ForwardBroke, PodClient, PodDown, PodProblem
from modelctl.rollout.pods import Pods
from modelctl.store.bucket import Store
from modelctl.store.journal import Change, Journal, Phase, Rollout
from tests import forwarding, http_server
from tests.forwarding import ApiServer
from tests.modelctl.rollout.idle_fleet import IdleFleet

METRICS = b'nv_inference_request_success{model="m",version="1"} 7\n'
READY = "/v2/models/m/ready"
INFER = "/v2/models/m/versions/1/infer"


class _Triton(http_server.Handler):
    """Answers after calling `lose`, while its count lasts."""

    requests: list[str] = []  # noqa: RUF012 - of the class, so that a test sees it
    losses = 0
    network: forwarding.Network | None = None

    def do_GET(self) -> None:
        self._answer(METRICS if self.path == "/metrics" else b"{}")

    def do_POST(self) -> None:
        self.body()
        self._answer(json.dumps([] if self.path.endswith("index") else {"outputs": []}).encode())

    def _answer(self, content: bytes) -> None:
        type(self).requests.append(f"{self.command} {self.path}")
        if self.losses:
            type(self).losses -= 1
            assert self.network is not None
            assert self.network.lose() == 1
        self.answer(200, content)


class Site:
    """A Triton pod behind an API server behind a network; `told` are the lines for the user."""

    def __init__(self, api: ApiServer, port: int) -> None:
        self.api, self.port = api, port
        self.told: list[str] = []

    def pod(self) -> Pod:
        forwards: PortForwards = self.api.forwards(self.told.append)
        url = f"http://triton-a:{self.port}"
        return Pod("triton-a", "uid-a", http=url, metrics=url, admin_key=lambda: "uid-a", forwards=forwards)


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr(pod_client, "REOPEN_SECONDS", 60)
    monkeypatch.setattr(_Triton, "requests", [])
    monkeypatch.setattr(_Triton, "losses", 0)
    with http_server.listening(_Triton) as triton, forwarding.api_server({"triton-a": "127.0.0.1"}) as api:
        host, port = api.url.removeprefix("http://").split(":")
        with forwarding.network(host, int(port)) as network:
            monkeypatch.setattr(_Triton, "network", network)
            api.url = network.url
            yield Site(api, triton.server_port)


@pytest.mark.parametrize(
    ("path", "request_"),
    [
        ("/metrics", lambda client: client.counters()),
        (READY, lambda client: client.ready("m")),
        ("/v2/repository/index", lambda client: client.index()),
    ],
)
def test_what_only_reads_is_sent_again_and_each_loss_is_told(site: Site, path: str, request_: object) -> None:
    _Triton.losses = 2
    with PodClient(site.pod()) as client:
        request_(client)  # type: ignore[operator]
    method = "POST" if path.endswith("index") else "GET"
    assert _Triton.requests == [f"{method} {path}"] * 3
    lost = f"pod triton-a: port {site.port}: the API server's port forward was lost: "
    assert [(line.startswith(lost), line.endswith(f"; {method} {path} is sent again")) for line in site.told] == [
        (True, True)
    ] * 2


def test_an_inference_that_was_in_flight_is_not_sent_again(site: Site) -> None:
    _Triton.losses = 1
    with PodClient(site.pod()) as client, pytest.raises(ForwardBroke, match="the API server's port forward was lost"):
        client.infer("m", 1, {})
    assert _Triton.requests == [f"POST {INFER}"]
    assert [line.endswith("; whether the pod has done what it was asked for is not known") for line in site.told] == [True]


def test_an_inference_that_never_left_is_sent(site: Site) -> None:
    site.api.refusals = [500, 503]
    with PodClient(site.pod()) as client:
        assert client.infer("m", 1, {}) == {"outputs": []}
    assert _Triton.requests == [f"POST {INFER}"]
    assert len(site.told) == 2


def test_a_forward_that_cannot_be_opened_is_given_up_in_time(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_client, "REOPEN_SECONDS", 0.5)
    site.api.refusals = [503] * 100
    with PodClient(site.pod()) as client, pytest.raises(ForwardBroke, match=r"is not forwarded \(503: not now\)"):
        client.counters()
    assert len(site.api.refusals) < 100
    assert _Triton.requests == []


def test_who_may_not_forward_ports_has_no_pod_that_is_down(site: Site) -> None:
    site.api.refusals = [403]
    with PodClient(site.pod()) as client, pytest.raises(FleetError, match="needs get and create of pods/portforward"):
        client.counters()


def test_a_pod_that_is_gone_is_down_and_one_that_cannot_be_reached_is_not(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pod that is down has no requests. Behind a lost forward its state is unknown, so the look has no counts."""
    site.api.pods = {}
    pods = Pods(IdleFleet([site.pod()]), Limits(), lambda: None, lambda _: None)
    with PodClient(site.pod()) as client, pytest.raises(PodDown):
        client.counters()
    assert pods.counters() == {}
    site.api.pods = {"triton-a": "127.0.0.1"}
    assert pods.counters() == {"uid-a": {("m", 1): Counters(success=7)}}
    monkeypatch.setattr(pod_client, "REOPEN_SECONDS", 0.5)
    site.api.refusals = [502] * 100
    with pytest.raises(ForwardBroke):
        pods.counters()


@pytest.mark.parametrize(
    ("failure", "undone"), [(PodProblem("wrong"), ["wrong"]), (ForwardBroke("the way is lost"), [])], ids=["pod", "way"]
)
def test_a_rollout_is_undone_for_its_pods_and_never_for_the_way_to_them(
    store: Store, monkeypatch: pytest.MonkeyPatch, failure: PodProblem, undone: list[str]
) -> None:
    change = Change(model="m", old=1, new=2)
    journal = Journal(rollout=Rollout(release="0" * 64, phase=Phase.CANARY, changes=(change,), started=datetime.now(UTC)))
    asked: list[str] = []

    def fail(_: Phases) -> None:
        raise failure

    def undo(_: Controller, lease: object, reason: str, **__: object) -> None:
        asked.append(reason)
        raise failure  # which ends the test: the next phase is UNDO_SERVE

    monkeypatch.setattr(Phases, "do", fail)
    monkeypatch.setattr(Controller, "_undo", undo)
    monkeypatch.setattr(Controller, "_phases", lambda *_: Phases.__new__(Phases))
    with pytest.raises(type(failure)):
        Controller(store, IdleFleet([]), Wanted("local"))._go_on(SimpleNamespace(journal=journal))  # type: ignore[arg-type]
    assert asked == undone
