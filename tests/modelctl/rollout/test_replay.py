"""Files of requests to replay, as people write them."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from modelctl.rollout.controller import Controller, Wanted
from modelctl.rollout.fleet import Pod
from modelctl.rollout.lease import Lease
from modelctl.rollout.replay import Replay, ReplayError
from modelctl.store.bucket import Store
from modelctl.store.journal import Change, Journal, Phase, Rollout
from modelctl.store.live import LiveRepository
from tests.modelctl.rollout.idle_fleet import IdleFleet
from tests.modelctl.rollout.releases import model, publish

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
    """A pod whose versions refuse every request with a 400, as Triton does for an input that a model has not."""

    class Refuses(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(400)
            self.end_headers()
            self.wfile.write(b"{\"error\": \"unexpected inference input 'X' for model 'a'\"}")

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Refuses)
    Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    yield Pod("pod", "1", url, url, "")
    server.shutdown()
    server.server_close()


def test_requests_that_the_old_version_refuses_all_compare_nothing_and_stop_it(picky: Pod, tmp_path: Path) -> None:
    replay = Replay.read(_file(tmp_path, "", LINE, LINE), 0)
    told: list[str] = []
    with pytest.raises(ReplayError) as error:
        replay.compare(Change(model="a", old=1, new=2), 0.0, IdleFleet([picky]), lambda: None, told.append)
    assert str(error.value) == (
        "a version 1 refuses all of its 2 requests to replay, so that nothing is compared; the first: line 2: pod: "
        "unexpected inference input 'X' for model 'a'; mend the file and run the same command again, it goes on, or undo "
        "the rollout with `modelctl rollout --back`"
    )
    replay.compare(Change(model="b", old=1, new=2), 0.0, IdleFleet([picky]), lambda: None, told.append)
    assert told == ["b: no request to replay"]
