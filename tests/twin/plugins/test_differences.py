"""Changed properties, in the engine's notation."""

from typing import Any

import pytest

from twin.plugins import values
from twin.plugins.differences import Change, changes, refreshed, render


def _deployment(image: str, **labels: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "triton", "labels": labels},
        "spec": {"template": {"spec": {"containers": [{"name": "triton", "image": image, "args": ["a", "b"]}]}}},
    }


def test_one_changed_value_is_one_precise_path() -> None:
    [change] = changes(_deployment("triton:1"), _deployment("triton:2"))
    assert (render(change.path), change.kind) == ("spec.template.spec.containers[0].image", "update")


def test_a_key_that_is_no_plain_name_is_quoted() -> None:
    [change] = changes(_deployment("t"), _deployment("t", **{"app.kubernetes.io/name": "x"}))
    assert (render(change.path), change.kind) == ('metadata.labels["app.kubernetes.io/name"]', "add")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({"a": [1, 2, 3]}, {"a": [1, 5]}, [("a[1]", "update"), ("a[2]", "delete")]),
        ({"a": [1]}, {"a": [1, {"b": 2}]}, [("a[1]", "add")]),
        ({"a": {"b": 1}}, {"a": "text"}, [("a", "update")]),
        ({"a": 1}, {}, [("a", "delete")]),
        ({"a": None}, {}, []),
        ({"a": 1}, {"a": True}, [("a", "update")]),
        ({"a": 1}, {"a": 1.0}, []),
        ({"a": "known"}, {"a": values.UNKNOWN}, [("a", "update")]),
        ({"__defaults": ["name"]}, {"__defaults": []}, []),
        ({"a": {"__x": 1}}, {"a": {"__x": 2}}, [("a.__x", "update")]),
    ],
)
def test_changes(old: dict[str, Any], new: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    assert [(render(change.path), change.kind) for change in changes(old, new)] == expected


def test_an_asset_changes_with_its_content_and_as_a_whole() -> None:
    asset = {values.SIGNATURE: values.ASSET, "path": "values.yaml", "hash": "1"}
    assert changes({"files": [asset]}, {"files": [{**asset, "hash": "2"}]}) == [Change(("files", 0), "update")]
    assert changes({"files": [asset]}, {"files": [{**asset, "path": "elsewhere.yaml"}]}) == []


def test_refresh_takes_over_what_drifted_and_only_that() -> None:
    inputs = {"spec": {"replicas": 2, "cpu": "1000m", "ports": [{"port": 80}]}}
    before = {"spec": {"replicas": 2, "cpu": "1", "ports": [{"port": 80, "protocol": "TCP"}], "uid": "x"}}
    now = {"spec": {"replicas": 5, "cpu": "1", "ports": [{"port": 81, "protocol": "TCP"}], "uid": "y"}}
    assert refreshed(inputs, before, now) == {"spec": {"replicas": 5, "cpu": "1000m", "ports": [{"port": 81}]}}


def test_refresh_drops_an_input_that_is_gone() -> None:
    assert refreshed({"labels": {"a": "1", "b": "2"}}, {"labels": {"a": "1", "b": "2"}}, {"labels": {"a": "1"}}) == {
        "labels": {"a": "1"}
    }


def test_refresh_takes_a_list_whole_when_its_length_changed() -> None:
    assert refreshed({"args": ["a"]}, {"args": ["a"]}, {"args": ["a", "b"]}) == {"args": ["a", "b"]}
