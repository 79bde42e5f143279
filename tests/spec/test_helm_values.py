"""Helm values: the merge of layers, and their files."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spec.helm_values import base_values, local_chart, merge, value_files, value_layers
from spec.settings import SettingsError


@pytest.mark.parametrize(
    ("base", "overlay", "merged"),
    [
        ({}, {}, {}),
        ({"a": 1}, {}, {"a": 1}),
        ({}, {"a": 1}, {"a": 1}),
        ({"a": 1, "b": 1}, {"b": 2, "c": 3}, {"a": 1, "b": 2, "c": 3}),
        ({"a": {"x": 1, "y": {"p": 1}}}, {"a": {"y": {"q": 2}, "z": 3}}, {"a": {"x": 1, "y": {"p": 1, "q": 2}, "z": 3}}),
    ],
    ids=str,
)
def test_mappings_are_merged_key_by_key(base: dict[str, Any], overlay: dict[str, Any], merged: dict[str, Any]) -> None:
    assert merge(base, overlay) == merged


@pytest.mark.parametrize(
    ("base", "overlay"),
    [
        ({"a": [1, 2]}, {"a": [3]}),
        ({"a": [{"name": "x"}]}, {"a": []}),
        ({"a": {"x": 1}}, {"a": "text"}),
        ({"a": "text"}, {"a": {"x": 1}}),
        ({"a": {"x": 1}}, {"a": None}),
        ({"a": True}, {"a": False}),
        ({"a": 1}, {"a": 0}),
    ],
    ids=str,
)
def test_everything_but_a_mapping_is_replaced_as_a_whole(base: dict[str, Any], overlay: dict[str, Any]) -> None:
    assert merge(base, overlay) == overlay


def test_an_empty_mapping_takes_nothing_away() -> None:
    assert merge({"a": {"x": 1}}, {"a": {}}) == {"a": {"x": 1}}


def test_merging_changes_neither_layer() -> None:
    base, overlay = {"a": {"x": {"p": 1}}}, {"a": {"x": {"q": 2}}}
    merge(base, overlay)["a"]["x"]["r"] = 3
    assert (base, overlay) == ({"a": {"x": {"p": 1}}}, {"a": {"x": {"q": 2}}})


def test_a_chart_of_ours_is_a_path_to_helm_and_not_a_name_in_a_repository() -> None:
    assert local_chart("triton") == "./charts/triton"


@pytest.fixture
def base_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that writes the base values of a chart called plugin in the working directory's project."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "helm-values" / "plugin" / "base.yaml"
    file.parent.mkdir(parents=True)

    def write(text: str) -> None:
        file.write_text(text, encoding="utf-8")

    return write


def test_base_values_are_read_from_the_charts_folder_of_the_project(base_file: Callable[[str], None]) -> None:
    base_file("a: {b: [1, true]}\n")
    assert base_values("plugin") == {"a": {"b": [1, True]}}


def test_a_base_file_of_comments_only_has_no_values(base_file: Callable[[str], None]) -> None:
    base_file("# nothing differs from the chart\n")
    assert base_values("plugin") == {}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: [1\n", "line 2, column 1: not valid YAML: did not find expected ',' or ']'"),
        ("a: 1\na: 2\n", "line 2, column 1: 'a' is there twice, first on line 1; keep one of them"),
        ("a: \0\n", "line 1, column 4: a NUL character, which no text has; is it another kind of file?"),
        ("- a\n", "the file: holds a list; give a mapping of values"),
    ],
)
def test_a_values_file_that_cannot_be_read_is_named(base_file: Callable[[str], None], text: str, told: str) -> None:
    base_file(text)
    with pytest.raises(SettingsError) as error:
        base_values("plugin")
    assert str(error.value) == f"helm-values/plugin/base.yaml: {told}"


def test_the_environments_file_comes_after_the_base_and_so_wins() -> None:
    layers = value_layers("triton", "dev")
    assert list(layers) == ["helm-values/triton/base.yaml", "helm-values/triton/dev.yaml"]
    assert list(layers) == [str(file) for file in value_files("triton", "dev")]
    assert layers["helm-values/triton/base.yaml"]["shm"]["size"]
    assert layers["helm-values/triton/dev.yaml"]["drain"]


def test_an_environment_without_a_file_has_the_values_of_the_base() -> None:
    assert list(value_layers("triton", "prod")) == ["helm-values/triton/base.yaml"]
