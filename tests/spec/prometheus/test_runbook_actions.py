"""Changes in docs/runbooks are valid for every stack of their kind."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from spec import stack_file, yaml_writer
from spec.problem import SettingsError
from spec.settings.source import load_content
from tests.paths import ROOT
from tests.spec.prometheus.runbook_pages import EVERY_PAGE, PAGES, blocks, prose, section
from tests.spec.prometheus.stacks import STACKS, settings

FOR = re.compile(r"# (autoscaled|fixed|any) stack(, with a new release)?\n")
"""The first line of a change: the kind of its stacks."""
ONLY_AUTOSCALED = {"TritonAutoscalerAtMax", "TritonNodeLaunchFailing", "TritonScalerErrors"}
"""Alerts about an autoscaler of pods or nodes."""
OF_FIXED_STACKS = re.compile(r"`(?:triton-eks:)?(?:triton\.)?(?:replicas|desired)`")
"""Keys that a stack with KEDA or Karpenter refuses."""
SCHEMA = json.loads((ROOT / "spec" / "stack-file.schema.json").read_text(encoding="utf-8"))


class Change(NamedTuple):
    """A change below `config` of a stack file."""

    stacks: str
    with_a_new_release: bool
    keys: dict[str, Any]


def changes(page: str) -> list[Change]:
    return [_change(block) for block in blocks(page, "yaml")]


def _change(block: str) -> Change:
    lines = "\n".join(line.strip() for line in block.splitlines()) + "\n"
    stacks = FOR.match(lines)
    assert stacks, f"the first line does not say for which stacks it is:\n{block}"
    return Change(stacks[1], stacks[2] is not None, yaml.safe_load(block))


def _kind(stack: str) -> str:
    return "fixed" if settings(stack).pod_autoscaler == "none" else "autoscaled"


def _has(stack: str, change: Change) -> bool:
    """Return whether a stack has the kind, and all sections, pools and models of the change."""
    config = _config(stack)
    if change.stacks not in ("any", _kind(stack)) or not config.keys() >= change.keys.keys():
        return False
    pools, models = (_names(config, change.keys, *path) for path in (("gpu", "pools"), ("models", "serving")))
    return pools and models


def _names(config: Mapping[str, Any], keys: Mapping[str, Any], section: str, key: str) -> bool:
    """Return whether the stack file has everything that the change names in a section."""
    old, new = (each.get(f"triton-eks:{section}", {}).get(key, {}) for each in (config, keys))
    return _by_name(old).keys() >= _by_name(new).keys()


def _by_name(members: Any) -> dict[str, Any]:
    return dict(members) if isinstance(members, Mapping) else {member["name"]: member for member in members}


def _config(stack: str) -> dict[str, Any]:
    config = stack_file.read(_path(stack).read_bytes()).config
    assert config is not None
    return config


def _path(stack: str) -> Path:
    return ROOT / "stacks" / f"Pulumi.{stack}.yaml"


def problems(stack: str, change: Change) -> list[str]:
    changed = _merged(_config(stack), change.keys)
    try:
        load_content(yaml_writer.dump({"config": changed}), _path(stack))
    except SettingsError as error:
        expected = {"models.release.serving"} if change.with_a_new_release else set()
        return [str(problem) for problem in error.problems if problem.path not in expected]
    return []


def _merged(old: Any, new: Any) -> Any:
    """Return a value with a change: mappings merge by key, pools by name; other values are replaced."""
    if isinstance(new, Mapping):
        old = old or {}
        return {**old, **{key: _merged(old.get(key), value) for key, value in new.items()}}
    if isinstance(new, list) and all(isinstance(item, Mapping) for item in new):
        return list(_merged(_by_name(old), _by_name(new)).values())
    return new


CHANGES = [
    pytest.param(change, id=f"{name}-{number}")
    for name, page in EVERY_PAGE.items()
    for number, change in enumerate(changes(page))
]


@pytest.mark.parametrize("change", CHANGES)
def test_every_stack_of_its_kind_accepts_what_a_page_changes(change: Change) -> None:
    found = {stack: problems(stack, change) for stack in STACKS if _has(stack, change)}
    kind = {stack for stack in STACKS if _kind(stack) == change.stacks}
    assert found, "no stack of stacks/ has these keys"
    assert found.keys() >= kind, "some stacks of the kind have no such pool or model"
    assert {stack: wrong for stack, wrong in found.items() if wrong} == {}


@pytest.mark.parametrize("name", EVERY_PAGE)
def test_a_size_has_an_action_for_autoscaled_and_one_for_fixed_stacks(name: str) -> None:
    kinds = {change.stacks for change in changes(EVERY_PAGE[name])} - {"any"}
    assert kinds in (set(), {"autoscaled"} if name in ONLY_AUTOSCALED else {"autoscaled", "fixed"})


@pytest.mark.parametrize("name", PAGES)
def test_actions_name_a_key_that_autoscaled_stacks_refuse_only_for_fixed_ones(name: str) -> None:
    lines = [line.strip() for line in prose(section(PAGES[name], "Do")).splitlines()]
    assert [line for line in lines if OF_FIXED_STACKS.search(line) and not line.startswith("Fixed stack:")] == []


@pytest.mark.parametrize("name", EVERY_PAGE)
def test_keys_in_the_actions_of_a_page_are_in_the_schema(name: str) -> None:
    page = EVERY_PAGE[name]
    keys = re.findall(
        r"`(?:triton-eks:)?([a-z]\w*(?:\.[<>\w]+)+)`", prose(page if name == "README" else section(page, "Do"))
    )
    sections = {key.partition(":")[2]: value for key, value in SCHEMA["properties"]["config"]["properties"].items()}
    ours = [key.split(".") for key in keys if key.partition(".")[0] in sections]
    assert [".".join(key) for key in ours if not _is_in_schema(sections[key[0]], key[1:])] == []


def _is_in_schema(node: Mapping[str, Any], path: list[str]) -> bool:
    if "$ref" in node:
        return _is_in_schema(SCHEMA["$defs"][node["$ref"].rpartition("/")[2]], path)
    if not path:
        return True
    ways = [*node.get("anyOf", ()), *node.get("allOf", ()), *node.get("oneOf", ())]
    for named in (
        node.get("properties", {}).get(path[0]),
        node.get("additionalProperties"),
        *node.get("patternProperties", {}).values(),
    ):
        if isinstance(named, Mapping) and _is_in_schema(named, path[1:]):
            return True
    return any(_is_in_schema(way, path) for way in ways)


# The problems that the tests above would find.


@pytest.mark.parametrize("stack", ["prod", "staging"])
@pytest.mark.parametrize(
    "keys", ["{triton-eks:triton: {replicas: 3}}", "{triton-eks:gpu: {pools: [{name: g5, desired: 2}]}}"]
)
def test_a_change_for_fixed_stacks_is_refused_by_one_that_is_autoscaled(stack: str, keys: str) -> None:
    assert problems(stack, _change(f"# any stack\n{keys}")) != []


def test_a_change_that_needs_a_new_release_is_refused_without_one() -> None:
    keys = "{triton-eks:models: {serving: {filetype: {expectedRate: 60, peakRate: 180}}}}"
    assert len(problems("prod", _change(f"# any stack\n{keys}"))) == 1
    assert problems("prod", _change(f"# any stack, with a new release\n{keys}")) == []


@pytest.mark.parametrize(
    ("path", "there"),
    [("max_replicas", False), ("maxReplicas", True), ("targets.<model>.pending", True), ("targets.<model>.pend", False)],
)
def test_a_key_that_the_schema_lacks_is_noticed(path: str, there: bool) -> None:
    node = SCHEMA["properties"]["config"]["properties"]["triton-eks:autoscaling"]
    assert _is_in_schema(node, path.split(".")) == there
