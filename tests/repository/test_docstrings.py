"""Docstrings name the thing or begin with a verb: none of them begins with "What"."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator

from tests.paths import ROOT


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each docstring: of modules, classes, functions and attributes."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for statement in node.body:
            match statement:
                case ast.Expr(value=ast.Constant(value=str(text)), lineno=line):
                    yield line, text


def begins_with_what(text: str) -> bool:
    return text.split(maxsplit=1)[:1] == ["What"]


def test_no_docstring_begins_with_what() -> None:
    listed = subprocess.run(["git", "ls-files", "-z", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    files = [file for file in listed.stdout.split("\0") if file and (ROOT / file).is_file()]
    assert "tests/repository/test_docstrings.py" in files
    sources = {file: (ROOT / file).read_text(encoding="utf-8") for file in files}
    assert [
        f"{file}:{line}"
        for file, source in sources.items()
        if re.search(r"[\"']\s*What\b", source)  # parsing takes longer than looking
        for line, text in docstrings(source)
        if begins_with_what(text)
    ] == []


def test_docstrings_of_every_kind_are_read() -> None:
    source = '''"""What a module is."""
NAME = 1
"""What an attribute is."""


class Thing:
    """What a class is."""

    field: int
    """What a field is."""

    async def method(self):
        """

        What a method does."""
        return "What is no docstring."


def function():
    """Whatever comes; What is a word inside."""
'''
    assert sorted(line for line, text in docstrings(source) if begins_with_what(text)) == [1, 3, 7, 10, 13]
    assert len(list(docstrings(source))) == 6
