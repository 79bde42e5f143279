"""A stack's file of differences from `prod` reproduces the stack's registrations."""

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


def test_an_example_has_a_line_for_each_resource_and_none_for_those_of_an_absent_component(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setattr(snapshots, "FOLDER", tmp_path)
    (tmp_path / "examples").mkdir()
    component = {"queue": {}, "key": {"parent": "queue"}, "alias": {"parent": "key"}}
    base = {"resources": {**component, "role": {"name": "role-0123abc", "path": "/prod/"}, "vpc": {"cidr": 1}}}
    (tmp_path / "prod.json").write_text(json.dumps(base))
    content = {"resources": {"role": {"name": "role-4567def", "path": "/minio/"}, "vpc": {"cidr": 2}}}

    text = snapshots.text("minio", content)
    (tmp_path / "examples" / "minio.json").write_text(text)

    assert text == '{\n"resources": {\n"queue": "(absent)",\n"vpc": {"cidr": 2}\n}\n}\n'
    assert snapshots.resources("minio") == {"role": {"name": "role", "path": "/minio/"}, "vpc": {"cidr": 2}}
