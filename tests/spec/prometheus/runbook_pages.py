"""Pages of docs/runbooks as readers see them: sections, code blocks, and queries with their normal values."""

from __future__ import annotations

import re

from tests.paths import ROOT

FOLDER = ROOT / "docs" / "runbooks"
EVERY_PAGE = {path.stem: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.md"))}
PAGES = {name: page for name, page in EVERY_PAGE.items() if name.startswith("Triton")}
"""The alerts' pages."""
NORMAL = "  # normal: "
"""Separator between a query and its value in a healthy stack."""

_FENCE = re.compile(r"^ *```(\w+)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


def blocks(page: str, language: str) -> list[str]:
    """Return the code blocks in a language."""
    return [content for name, content in _FENCE.findall(page) if name == language]


def fenced(page: str, language: str) -> list[str]:
    """Return the lines of all code blocks in a language; a backslash at the end continues a line."""
    joined = (block.replace("\\\n", "") for block in blocks(page, language))
    return [line.strip() for block in joined for line in block.splitlines() if line.strip()]


def queries(page: str) -> list[str]:
    return [line.partition(NORMAL)[0] for line in fenced(page, "promql")]


def prose(page: str) -> str:
    return _FENCE.sub("", page)


def section(page: str, heading: str) -> str:
    """Return the text below a heading of the second level."""
    return page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
