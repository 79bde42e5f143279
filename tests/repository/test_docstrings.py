"""Docstrings name the thing or begin with a verb: none begins with "What", and none of a function with a question."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator

from tests.paths import ROOT

QUESTIONS = ("Whether", "How", "Where", "Who", "Why", "When", "Which")


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


def of_functions(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the docstring of each function that is no test: of these it says why."""
    for node in ast.walk(ast.parse(source)):
        function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("test_")
        if function and (text := ast.get_docstring(node)):
            yield node.body[0].lineno, text


def sources() -> dict[str, str]:
    """Return the text of each module of the repository."""
    listed = subprocess.run(["git", "ls-files", "-z", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    files = [file for file in listed.stdout.split("\0") if file and (ROOT / file).is_file()]
    assert "tests/repository/test_docstrings.py" in files
    return {file: (ROOT / file).read_text(encoding="utf-8") for file in files}


def test_no_docstring_begins_with_what() -> None:
    assert [
        f"{file}:{line}"
        for file, source in sources().items()
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


def test_no_docstring_of_a_function_begins_with_a_question() -> None:
    begins = re.compile(rf"[\"']\s*(?:{'|'.join(QUESTIONS)})\b")
    assert [
        f"{file}:{line}"
        for file, source in sources().items()
        if begins.search(source)
        for line, text in of_functions(source)
        if text.split(maxsplit=1)[0] in QUESTIONS
    ] == []
    assert list(of_functions('def f():\n    """Whether."""\n\ndef test_g():\n    """Why."""\n')) == [(2, "Whether.")]
