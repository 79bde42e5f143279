"""docs/security.md lists every place that removes or overwrites something, each with tests that are there."""

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
    r"|(delete|put|copy)_objects?(_tagging)?|upload_file|delete_message(_batch)?|(put_secret_value|delete_secret)"
)
_WORDS = frozenset({"PATCH", "destroy"})
"""The words in which GitHub and Pulumi are asked to change or remove something."""
_ELSEWHERE = ("tests/", "twin/aws/", "models/", "examples/models/", "benchmarks/models/")


def removing(file: str) -> bool:
    """Return whether a module calls something that removes or overwrites files, objects or messages, or has that done."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    asks = not file.startswith("twin/")  # whose own cluster and engine they are that it asks
    words = _WORDS if asks else frozenset()
    return any(_removes(node) or (isinstance(node, ast.Constant) and node.value in words) for node in ast.walk(tree))


def _removes(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute) and _REMOVING.fullmatch(node.attr):
        return True
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Name):
        return bool(_REMOVING.fullmatch(node.func.id))
    if not isinstance(node.func, ast.Attribute):
        return False
    opened = node.func.attr == "open" and any(isinstance(a, ast.Constant) and a.value in ("w", "wb", "x") for a in node.args)
    replaced = node.func.attr == "replace" and len(node.args) == 1 and not node.keywords  # of Path: text takes two
    return opened or replaced


def modules() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [file for file in listed.stdout.splitlines() if not file.startswith(_ELSEWHERE) and (ROOT / file).exists()]


def places() -> set[str]:
    """The files that the tables name in the column `where`."""
    rows = [line.split(" | ") for line in SECTION.splitlines() if line.startswith("| ") and not line.startswith("| what")]
    assert len(rows) > 20
    return {file for row in rows for file in re.findall(r"`([^`]+)`", row[1])}


def test_every_place_that_removes_or_overwrites_is_listed() -> None:
    assert {file for file in modules() if removing(file)} - places() == set()


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
