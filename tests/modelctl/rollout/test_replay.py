"""Replay files as users write them, and the result if pods are overloaded meanwhile."""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from modelctl.rollout.controller import Controller, Wanted
from modelctl.rollout.fleet import Pod
from modelctl.rollout.lease import Lease
from modelctl.rollout.pod_client import PodClient, PodHangs, PodOverloaded
from modelctl.rollout.replay import Differs, Replay, ReplayError, Request, _ask_both
from modelctl.store.bucket import Store
from modelctl.store.journal import Change, Journal, Phase, Rollout
from modelctl.store.live import LiveRepository
from tests import http_server
from tests.modelctl.rollout.answering_pod import FULL, answering_pod, out
from tests.modelctl.rollout.idle_fleet import IdleFleet
from tests.modelctl.rollout.releases import model, publish

Answer = tuple[int, dict[str, Any]]

LINE = '{"model": "a", "inputs": {"X": {"datatype": "FP32", "shape": [1, 2], "data": [1, 2.5]}}}'


def _file(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "requests.jsonl"
    path.write_text("\n".join(lines))
    return path


def test_requests_are_read_by_model_with_their_lines(tmp_path: Path) -> None:
    replay = Replay.read(_file(tmp_path, LINE, "", LINE.replace('"a"', '"b"'), LINE), 0.5)
    assert {model: [line for line, _ in found] for model, found in replay.requests.items()} == {"a": [1, 4], "b": [3]}
    assert replay.requests["b"][0][1].body() == {
        "inputs": [{"name": "X", "datatype": "FP32", "shape": [1, 2], "data": [1, 2.5]}]
    }


def test_every_mistake_is_told_with_its_line(tmp_path: Path) -> None:
    path = _file(tmp_path, '{"model": "a"}', LINE, LINE.replace("[1, 2]", "[1, 3]"), LINE.replace("2.5]", '2.5], "v": 1'))
    with pytest.raises(ReplayError) as error:
        Replay.read(path, 0)
    first, second, third = str(error.value).splitlines()
    assert first.startswith(f"{path}:1: inputs: ")
    assert second.startswith(f"{path}:3: inputs.X: ")
    assert second.endswith("2 values do not fill the shape [1, 3]")
    assert third.startswith(f"{path}:4: inputs.X.v: ")


@pytest.mark.parametrize(
    ("text", "said"), [("", ": has no request; write one a line, like {"), (LINE + "\n{", ":2:2: not valid JSON: ")]
)
def test_what_has_no_requests_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ReplayError, match=re.escape(f"{tmp_path}/requests.jsonl{said}")):
        Replay.read(_file(tmp_path, text), 0)


def _replayed(tmp_path: Path, old: list[Answer], new: list[Answer], lines: int = 1, pods: int = 1) -> list[str]:
    """Return the output lines of a replay of `lines` requests, with the answers of versions 1 and 2 in turn."""
    answers = {"1": iter(old), "2": iter(new)}
    told: list[str] = []
    with ExitStack() as stack:
        each = [
            stack.enter_context(answering_pod(lambda path: next(answers[path.split("/")[-2]]), f"pod-{number}"))
            for number in range(pods)
        ]
        fleet = IdleFleet(each)
        Replay.read(_file(tmp_path, *[LINE] * lines), 0).compare(
            Change(model="a", old=1, new=2), 1e-5, (fleet, fleet), "version 1", lambda: None, told.append
        )
    return [re.sub(r"\d+\.\d ms", "… ms", line) for line in told]


def test_another_pod_is_asked_where_one_is_overloaded(tmp_path: Path) -> None:
    assert _replayed(tmp_path, [out(1.0), out(1.0)], [FULL, out(1.0)], pods=2) == [
        "a version 2 answers 0 of 1 replayed requests otherwise than version 1, 0% may; median … ms, version 1 … ms"
    ]


@pytest.mark.parametrize(("old", "new"), [([FULL], [out(7.0)]), ([out(1.0)], [FULL])])
def test_a_request_for_which_no_pod_has_time_is_left_out(tmp_path: Path, old: list[Answer], new: list[Answer]) -> None:
    assert _replayed(tmp_path, [*old, out(1.0)], [*new, out(1.0)], lines=2) == [
        "a version 2 answers 0 of 1 replayed requests otherwise than version 1, 0% may; median … ms, version 1 … ms; 1 more "
        "are left out: version 1 refused them, or the pods had no time"
    ]


def test_a_request_that_no_pod_answers_in_time_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def hangs(*_: object) -> None:
        raise PodHangs("pod-0: no answer in time")

    monkeypatch.setattr(PodClient, "infer", hangs)
    fleet = IdleFleet([Pod("pod-0", "uid", http="http://127.0.0.1:9", metrics="", admin_key=lambda: "k")])
    asked = _ask_both(
        (fleet, fleet),
        Request.model_validate_json(LINE),
        (1, 2),
        0,
    )
    assert [(type(answer), str(answer)) for answer in (asked.old, asked.new)] == [
        (PodOverloaded, "pod-0: no answer in time")
    ] * 2


def test_pods_of_their_own_are_asked_for_each_version_even_where_both_have_one_number(tmp_path: Path) -> None:
    told: list[str] = []
    with (
        answering_pod(lambda _: out(1.0), "old") as old,
        answering_pod(lambda _: out(7.0), "new") as new,
        pytest.raises(Differs) as error,
    ):
        Replay.read(_file(tmp_path, LINE), 0).compare(
            Change(model="a", old=1, new=1),
            0.0,
            (IdleFleet([old]), IdleFleet([new])),
            "release x",
            lambda: None,
            told.append,
        )
    assert str(error.value) == (
        "a version 1 answers 1 of 1 replayed requests otherwise than release x, 0% may; the first: line 1: OUT[0] is 7.0, "
        "expected 1.0 (tolerance 0)"
    )


def test_an_error_of_the_new_version_alone_is_a_difference(tmp_path: Path) -> None:
    with pytest.raises(Differs, match="the first: line 1: pod-0: boom"):
        _replayed(tmp_path, [out(1.0)], [(500, {"error": "boom"})])


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_model_that_the_release_lacks_is_refused_before_anything_is_changed(
    goes_on: bool, store: Store, s3: Any, tmp_path: Path
) -> None:
    first = publish(store, tmp_path / "repository", model("adder", 1), model("other", 1))
    second = publish(store, tmp_path / "repository", model("adder", 2), model("other", 1))
    live = LiveRepository(store)
    changes = (Change(model="adder", old=1, new=2),)
    left = Rollout(release=second.id, phase=Phase.COPY, changes=changes, started=datetime.now(UTC)) if goes_on else None
    live.write_journal(Journal(stack="local", serving=first.id, rollout=left), None)
    lines = [LINE.replace('"a"', f'"{name}"') for name in ("adder", "ader", "other", "ader", "oter")]
    replay = Replay.read(_file(tmp_path, *lines), 0)

    with pytest.raises(ReplayError) as error, Lease(live) as lease:
        Controller(store, IdleFleet([]), Wanted("local", replay=replay)).rollout(second.id, lease)

    assert str(error.value).splitlines() == [
        "the file of requests to replay:",
        f"line 2: release {second.id} has no model 'ader', but adder, other",
        f"line 5: release {second.id} has no model 'oter', but adder, other",
    ]
    assert live.read_journal()[0].rollout == left
    assert [entry["Key"] for entry in s3.list_objects_v2(Bucket=store.place.bucket, Prefix="live/")["Contents"]] == [
        "live/rollout.json"
    ]


@pytest.fixture
def picky() -> Iterator[Pod]:
    """Yield a pod whose versions refuse every request with 400, like Triton for an unknown input."""

    class Refuses(http_server.Handler):
        def do_POST(self) -> None:
            self.body()
            self.answer(400, b"{\"error\": \"unexpected inference input 'X' for model 'a'\"}")

    with http_server.listening(Refuses) as server:
        yield Pod("pod", "1", server.url, server.url, "")


def test_requests_that_the_old_version_refuses_all_compare_nothing_and_stop_it(picky: Pod, tmp_path: Path) -> None:
    replay = Replay.read(_file(tmp_path, "", LINE, LINE), 0)
    told: list[str] = []
    fleet = IdleFleet([picky])
    with pytest.raises(ReplayError) as error:
        replay.compare(Change(model="a", old=1, new=2), 0.0, (fleet, fleet), "version 1", lambda: None, told.append)
    assert str(error.value) == (
        "a: version 1 refuses all of its 2 requests to replay, or no pod has time for them, so that nothing is compared; "
        "the first: line 2: pod: unexpected inference input 'X' for model 'a'; mend the file, or wait, and run the "
        "same command again, it goes on, or undo "
        "the rollout with `modelctl rollout --back`"
    )
    replay.compare(Change(model="b", old=1, new=2), 0.0, (fleet, fleet), "version 1", lambda: None, told.append)
    assert told == ["b: no request to replay"]
