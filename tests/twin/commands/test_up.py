"""The pins of `up`, and its final inference, or why it is skipped. All else is fake; real: tests/system/e2e."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from twin.cluster.view import ClusterView
from twin.commands import inference, readiness, up
from twin.commands.inference import InferenceFailed
from twin.engine import stack_files
from twin.host.home import REPOSITORY, TwinHome
from twin.services.servers import Servers

SLEEPS = (
    "triton sleeps, so that no inference was tried: autoscaling.minReplicas is 0, and KEDA takes the last pod while nobody "
    "asks. What starts the first one: a message in the request queue (`python3 -m twin load --rate 1 --seconds 5 --sqs`)"
)


@pytest.fixture
def home(tmp_path: Path) -> TwinHome:
    home = TwinHome(tmp_path / "home")
    stack_files.ask_for_autoscaling(home, True)
    stack_files.pin(home, stack_files.STACK, "triton-eks:autoscaling.minReplicas", 0)
    return home


def first_answer(home: TwinHome, monkeypatch: pytest.MonkeyPatch, *, wanted: int, found: list[str]) -> tuple[Any, list[str]]:
    """End an `up` whose fleet has these addresses of a deleted pod and needs this many pods; return its output."""

    def addresses(view: ClusterView, *, service: str, may_sleep: bool) -> list[str]:
        assert (service, may_sleep) == ("triton", True)
        return found

    def infer(address: str) -> None:
        raise InferenceFailed(f"{address} did not answer")

    monkeypatch.setattr(readiness, "wait", lambda *_, **__: 1.0)
    monkeypatch.setattr(readiness, "addresses", addresses)
    monkeypatch.setattr(inference, "infer", infer)
    said: list[str] = []
    view = SimpleNamespace(wanted=lambda namespace, deployment: wanted)
    servers = cast(Servers, SimpleNamespace(cluster=lambda: view, program=REPOSITORY))
    return up._first_answer(home, servers, said.append), said


def test_a_fleet_that_sleeps_is_told_with_what_wakes_it(home: TwinHome, monkeypatch: pytest.MonkeyPatch) -> None:
    assert first_answer(home, monkeypatch, wanted=0, found=[]) == (None, [SLEEPS])


def test_so_is_one_that_falls_asleep_while_it_is_asked(home: TwinHome, monkeypatch: pytest.MonkeyPatch) -> None:
    answer, said = first_answer(home, monkeypatch, wanted=0, found=["10.244.128.2"])
    assert (answer, said[-1]) == (None, SLEEPS)


def test_one_that_is_awake_and_does_not_answer_has_failed(home: TwinHome, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InferenceFailed, match="did not answer"):
        first_answer(home, monkeypatch, wanted=1, found=["10.244.128.2"])


def test_a_gateway_wakes_too(home: TwinHome) -> None:
    stack_files.ask_for_gateway(home, True)
    stack_files.pin(home, stack_files.STACK, "triton-eks:autoscaling.minReplicas", 0)
    told = up._asleep(up.asked_fleet(home))
    assert told == f"{SLEEPS}, or a request at the gateway, which is answered 503 until the pod is ready"


class _Pinned(Exception):
    """`up` has written its first pins."""


@pytest.mark.parametrize("sections", [{"triton-eks:worker"}, set()])
def test_workers_that_the_stack_has_no_more_leave_no_pin(
    home: TwinHome, monkeypatch: pytest.MonkeyPatch, sections: set[str]
) -> None:
    def pinned(*_: Any) -> None:
        raise _Pinned

    monkeypatch.setattr(up.interrupted, "clear", pinned)
    stack_files.pin(home, stack_files.STACK, "triton-eks:worker.awsEndpoint", "http://127.0.0.1:1")
    monkeypatch.setattr(stack_files, "sections", lambda *_: frozenset(sections))
    servers = cast(Servers, SimpleNamespace(engine=lambda: None, aws_url="http://127.0.0.1:2", program=REPOSITORY))
    with pytest.raises(_Pinned):
        up.up(home, servers, print)
    pins = stack_files.read(stack_files.pins_file(home, stack_files.STACK))
    assert pins["triton-eks:worker"]["awsEndpoint"] == ("http://127.0.0.1:2" if sections else None)
