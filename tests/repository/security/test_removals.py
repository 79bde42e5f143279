"""docs/security.md lists every place that removes or overwrites something, each with its existing tests."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator

import pytest

from tests.paths import ROOT

PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("## What removes or overwrites")[2].partition("\n## ")[0]

_REMOVING = re.compile(
    r"rmtree|unlink|rmdir|removedirs|write_text|write_bytes|write_whole|rewrite|rename|copyfile|copy2|copytree|extractall"
    r"|(delete|put|copy)_objects?(_tagging)?|upload_file(obj)?|delete_message(_batch)?|(put_secret_value|delete_secret)"
    r"|(delete|replace|patch)_(namespaced|cluster)_\w+|symlink_to|hardlink_to"
)
_OF_MODULES = {"os": {"remove", "replace", "truncate"}, "shutil": {"move", "copy", "copyfileobj"}}
_WRITES = re.compile(r"[rbt]*[wax+][wax+bt]*")
"""Modes of `open` for text and for bytes."""
_WORDS = frozenset({"PATCH", "destroy"})
"""The words with which code tells GitHub and Pulumi to change or remove something."""
_ELSEWHERE = ("tests/", "twin/aws/", "models/", "examples/models/", "benchmarks/models/")


def removing(file: str) -> bool:
    """Return whether a module removes or overwrites files, objects or messages, directly or through a call."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    asks = not file.startswith("twin/")  # the twin changes only its own cluster and engine
    words = _WORDS if asks else frozenset()
    return any(_removes(node) or (isinstance(node, ast.Constant) and node.value in words) for node in ast.walk(tree))


def _removes(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute) and _REMOVING.fullmatch(node.attr):
        return True
    if not isinstance(node, ast.Call):
        return False
    given = [*node.args, *(keyword.value for keyword in node.keywords)]
    writes = any(isinstance(a, ast.Constant) and isinstance(a.value, str) and _WRITES.fullmatch(a.value) for a in given)
    if isinstance(node.func, ast.Name):
        return bool(_REMOVING.fullmatch(node.func.id)) or (node.func.id == "open" and writes)
    if not isinstance(node.func, ast.Attribute):
        return False
    if isinstance(node.func.value, ast.Name) and node.func.attr in _OF_MODULES.get(node.func.value.id, ()):
        return True
    opened = node.func.attr == "open" and writes
    replaced = node.func.attr == "replace" and len(node.args) == 1 and not node.keywords  # str.replace takes two
    return opened or replaced


def modules() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [file for file in listed.stdout.splitlines() if not file.startswith(_ELSEWHERE) and (ROOT / file).exists()]


def places() -> set[str]:
    """Return the files in the column `where` of the tables."""
    rows = [line.split(" | ") for line in SECTION.splitlines() if line.startswith("| ") and not line.startswith("| what")]
    assert len(rows) > 20
    return {file for row in rows for file in re.findall(r"`([^`]+)`", row[1])}


def test_every_place_that_removes_or_overwrites_is_listed() -> None:
    assert {file for file in modules() if removing(file)} - places() == set()


@pytest.mark.parametrize(
    "line",
    [
        "os.remove(a)",
        "os.replace(a, b)",
        "shutil.move(a, b)",
        'open(a, "w")',
        'open(a, mode="ab")',
        'a.open("r+b")',
        "a.replace(b)",
        "core.delete_namespaced_pod(a, b)",
        "core.replace_namespaced_config_map(a, b, c)",
        "a.symlink_to(b)",
        "client.upload_fileobj(a)",
    ],
)
def test_each_way_to_remove_or_overwrite_is_found(line: str) -> None:
    assert any(map(_removes, ast.walk(ast.parse(line))))


@pytest.mark.parametrize("line", ['a.replace("b", "c")', 'open(a, "rb")', "a.open()", "found.remove(a)", 'open(a, "r", b)'])
def test_what_only_reads_is_not(line: str) -> None:
    assert not any(map(_removes, ast.walk(ast.parse(line))))


def test_every_place_that_is_listed_is_there_and_still_does() -> None:
    for file in sorted(places()):
        assert (ROOT / file).is_file(), file
        if file.endswith(".py") and file != "stackctl/orphans/search.py":  # which prints commands
            assert removing(file), f"{file} removes nothing any more"


def named_tests() -> Iterator[str]:
    yield from re.findall(r"`(tests/[^`]+::[^`]+)`", SECTION)


@pytest.mark.parametrize("test", sorted(set(named_tests())))
def test_a_test_that_is_named_is_there(test: str) -> None:
    file, _, name = test.partition("::")
    assert f"\ndef {name}(" in (ROOT / file).read_text(encoding="utf-8")
