"""Files of requests to replay, as people write them."""

import re
from pathlib import Path

import pytest

from modelctl.rollout.replay import Replay, ReplayError

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
