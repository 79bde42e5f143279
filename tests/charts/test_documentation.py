"""The chart describes all its values, and its files are in order."""

import json
from collections.abc import Iterator
from typing import Any

import helm_python
import pytest
import yaml
from yamllint import linter
from yamllint.config import YamlLintConfig

from spec.helm_values import merge
from tests.charts import rendering, values_reference
from tests.charts.rendering import CHART, VALUE_FILES
from tests.paths import ROOT

VALUES_TEXT = (CHART / "values.yaml").read_text()
SCHEMA = json.loads((CHART / "values.schema.json").read_text())


def test_every_value_has_a_description() -> None:
    assert set(values_reference.leaves(yaml.safe_load(VALUES_TEXT))) == values_reference.documented(VALUES_TEXT)


def test_the_schema_has_every_value() -> None:
    for path in values_reference.leaves(yaml.safe_load(VALUES_TEXT)):
        node = SCHEMA
        for key in path.split("."):
            node = node["properties"][key]


def test_the_schema_knows_no_value_that_the_chart_does_not_have() -> None:
    defaults = yaml.safe_load(VALUES_TEXT)

    def unknown(schema: dict[str, Any], values: dict[str, Any], path: str = "") -> Iterator[str]:
        for key, below in schema.get("properties", {}).items():
            if key not in values:
                yield f"{path}{key}"
            elif isinstance(values[key], dict):
                yield from unknown(below, values[key], f"{path}{key}.")

    assert list(unknown(SCHEMA, defaults)) == ["global", "serviceAccount.annotations.eks.amazonaws.com/role-arn"]


def test_no_object_of_the_schema_accepts_unknown_keys_unless_it_is_passed_through() -> None:
    open_maps = {
        "global",
        "release.models",
        "release.others",
        "server.rateLimiter.resources",
        "serviceAccount.annotations",
        "nodeSelector",
        "podLabels",
        "podAnnotations",
    }
    found = {path for path, node in _objects(SCHEMA, "") if node.get("additionalProperties") is not False}
    assert found == open_maps


def _objects(node: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    if node.get("type") == "object":
        yield path, node
        for key, below in node.get("properties", {}).items():
            yield from _objects(below, f"{path}.{key}".removeprefix("."))


def test_the_schema_is_draft_07() -> None:
    assert SCHEMA["$schema"] == "http://json-schema.org/draft-07/schema#"


def test_helm_lint_finds_nothing() -> None:
    report = helm_python.lint(CHART, dict(rendering.COMPUTED), strict=True, kube_version="v1.35.0")
    messages = [m for m in report["messages"] if "icon is recommended" not in m["error"]]
    assert (messages, report["errors"]) == ([], [])


@pytest.mark.parametrize("path", [CHART / "Chart.yaml", CHART / "values.yaml", *sorted(VALUE_FILES.glob("*.yaml"))])
def test_yamllint_finds_nothing(path: Any) -> None:
    config = YamlLintConfig(file=str(ROOT / ".yamllint.yaml"))
    assert [str(problem) for problem in linter.run(path.read_text(), config)] == []


def test_an_overlay_repeats_nothing_of_the_base() -> None:
    base = _flat(yaml.safe_load((VALUE_FILES / "base.yaml").read_text()))
    for path in sorted(VALUE_FILES.glob("[!b]*.yaml")):
        overlay = _flat(yaml.safe_load(path.read_text()))
        assert overlay
        assert not overlay.items() & base.items()


def _flat(values: dict[str, Any], path: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{path}{key}.")
        else:
            flat[f"{path}{key}"] = json.dumps(value)
    return flat


def test_the_notes_name_models_addresses_and_times() -> None:
    values = merge(rendering.COMPUTED, {"replicaCount": 1, "release": {"bytes": 1}})
    with helm_python.Chart.load(CHART) as chart:
        notes = chart.render(values, name="triton", namespace="inference")["triton/templates/NOTES.txt"]
    assert "  pipeline (version 3)\n  resnet50 (version 1)\n" in notes
    assert "gRPC     triton.inference:8001" in notes
    assert "A start may take 180 s" in notes
    assert "A stop takes at most 105 s: 15 s" in notes
    assert "With one replica that is an interruption." in notes


def test_the_notes_of_in_place_rollouts_name_no_version() -> None:
    with helm_python.Chart.load(CHART) as chart:
        rendered = chart.render(merge(rendering.COMPUTED, rendering.IN_PLACE), name="triton", namespace="inference")
    notes = rendered["triton/templates/NOTES.txt"]
    assert "in the versions that the last `modelctl rollout` wrote to live/:\n  pipeline\n  resnet50\n" in notes
    assert rendering.RELEASE_ID not in notes
