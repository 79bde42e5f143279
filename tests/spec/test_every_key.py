"""Our files set every key of a stack file and create every component: there are no unused options."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import yaml

from docs import generate
from spec.settings.schema import schema_text
from tests import snapshots
from tests.paths import ROOT

SCHEMA: dict[str, Any] = json.loads(schema_text())
FILES = sorted([*(ROOT / "stacks").glob("Pulumi.*.yaml"), *(ROOT / "examples" / "stacks").glob("*.yaml")])

Keys = dict[str, set[str]]
"""The keys of each section."""


def _keys(schema: Mapping[str, Any]) -> Keys:
    config = schema["properties"]["config"]["properties"]
    return {"": set(config)} | {name: set(section.get("properties", {})) for name, section in schema["$defs"].items()}


def _collect(node: Mapping[str, Any], section: str, value: Any, used: Keys) -> None:
    """Add to `used` the keys of `value`, which the schema's `node` describes, and all nested keys."""
    if "$ref" in node:
        section = node["$ref"].rpartition("/")[2]
        node = SCHEMA["$defs"][section]
    for alternative in node.get("anyOf", ()):
        _collect(alternative, section, value, used)
    if isinstance(value, list):
        for item in value:
            _collect(node.get("items", {}), section, item, used)
    elif isinstance(value, dict):
        keys = node.get("properties", {})
        entries = [*node.get("patternProperties", {}).values(), node.get("additionalProperties")]
        for key, inner in value.items():
            if key in keys:
                used[section].add(key)
                _collect(keys[key], section, inner, used)
            for entry in entries if key not in keys else ():
                if isinstance(entry, dict):
                    _collect(entry, section, inner, used)


def _used() -> Keys:
    used: Keys = defaultdict(set)
    for file in FILES:
        _collect(SCHEMA["properties"]["config"], "", yaml.safe_load(file.read_text(encoding="utf-8"))["config"], used)
    return used


def test_a_stack_file_of_ours_uses_every_key() -> None:
    used = _used()
    assert {name: sorted(keys - used[name]) for name, keys in _keys(SCHEMA).items() if keys - used[name]} == {}


def test_keys_below_lists_mappings_and_alternatives_are_found() -> None:
    """For each kind of nesting, one key from `dev` or an example."""
    used = _used()
    assert "triton-eks:network" in used[""]
    assert "strategy" in used["Sharing"]  # in a list, and an alternative to text
    assert "sloP95Ms" in used["ModelServing"]  # in a mapping by names
    assert "vcpus" in used["InstanceFacts"]  # in a mapping by a pattern


def test_a_stack_file_of_ours_creates_every_component() -> None:
    registered = {
        resource.type
        for stack in (*snapshots.STACKS, *snapshots.EXAMPLES)
        for resource in generate.registered(stack).values()
    }
    assert set(generate.modules()) - registered == set()


def test_a_guide_leads_to_each_example() -> None:
    guides = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").glob("*.md")))
    table = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    for name in snapshots.EXAMPLES:
        link = f"](../examples/stacks/{name}.yaml)"
        assert (link in guides, link in table) == (True, True), name
