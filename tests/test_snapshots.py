"""A stack's file of differences from `prod` gives back what the stack registers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests import snapshots

BASE = {"a": {"x": 1, "list": [{"n": 1}, {"n": 2}]}, "gone": [1], "null": 0}


@pytest.mark.parametrize(
    ("content", "difference"),
    [
        (BASE, {}),
        ({**BASE, "a": {"x": 2, "list": [{"n": 1}, {"n": 3}]}}, {"a": {"x": 2, "list": {"[1]": {"n": 3}}}}),
        ({**BASE, "a": {"x": 1, "list": [{"n": 1}]}}, {"a": {"list": [{"n": 1}]}}),
        ({"a": {}, "null": None, "new": {"y": []}}, {"a": {"x": "(absent)", "list": "(absent)"}, "null": None}),
        ({**BASE, "gone": {"y": 1}}, {"gone": {"y": 1}}),
    ],
)
def test_a_difference_is_as_small_as_the_change_and_gives_it_back(content: Any, difference: Any) -> None:
    made = snapshots.difference(BASE, content)
    if "new" in content:
        difference = {**difference, "gone": "(absent)", "new": {"y": []}}
    assert made == difference
    assert snapshots.merged(BASE, made) == content


def test_a_stack_is_prod_by_its_own_name_and_its_differences(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(snapshots, "FOLDER", tmp_path)
    (tmp_path / "prod.json").write_text('{"resources": {"a": {"name": "triton-prod", "product": "prod"}}}')
    content = {"resources": {"a": {"name": "triton-dev", "product": "prod"}, "b": {}}}
    (tmp_path / "dev.json").write_text(snapshots.text("dev", content))
    assert json.loads((tmp_path / "dev.json").read_text()) == {"resources": {"a": {"product": "prod"}, "b": {}}}
    assert snapshots.resources("dev") == content["resources"]
