"""One set of exit codes: in docs/commands.md, in each `--help`, and of each failure."""

from __future__ import annotations

import re

import pytest

from console.exit_codes import MEANINGS
from tests.command import run
from tests.paths import ROOT


def test_the_page_has_the_table_of_the_program() -> None:
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    assert {int(code): meaning for code, meaning in re.findall(r"^\| (\d+) \| (.+) \|$", page, re.MULTILINE)} == MEANINGS


@pytest.mark.parametrize("command", ["stackctl", "modelctl"])
def test_help_has_it_too(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    done = run(command, "--help")
    assert (done.exit_code, done.stderr) == (0, "")
    for code, meaning in MEANINGS.items():
        assert f"{code} {meaning}" in done.stdout
