"""`--help` of every script for people prints its description and changes nothing."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.paths import ROOT
from tests.repository.docs.command_lines import has_a_command_line, help_of

_FOLDERS = ("benchmarks", "docs", "examples")


def programs() -> list[str]:
    """Return the modules that end with a program."""
    listed = subprocess.run(["git", "ls-files", *_FOLDERS], cwd=ROOT, capture_output=True, text=True, check=True)
    paths = [path for path in listed.stdout.split() if path.endswith(".py")]
    started = re.compile(r'^if __name__ == "__main__":', re.MULTILINE)
    return sorted(
        path.removesuffix(".py").replace("/", ".")
        for path in paths
        if started.search((ROOT / path).read_text(encoding="utf-8")) and not path.endswith("__main__.py")
    )


@pytest.mark.parametrize("module", programs())
def test_a_program_says_what_it_does(module: str) -> None:
    # Only if it has a parser: any other program would start to work.
    assert has_a_command_line(ROOT / f"{module.replace('.', '/')}.py")
    assert "usage: " in (help_of(module, ()) or "").lower()


@pytest.mark.parametrize("name", ["run", "slow"])
def test_so_does_what_ci_runs(name: str) -> None:
    done = subprocess.run([ROOT / ".ci" / name, "--help"], capture_output=True, text=True, check=True, timeout=20)
    assert done.stdout and done.stdout in (ROOT / ".ci" / name).read_text(encoding="utf-8").replace("\n# ", "\n")
