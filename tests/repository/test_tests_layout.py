"""Tests lie where the packages lie, tests/README.md says what is where, and one module knows where the checkout is."""

from __future__ import annotations

import re
import subprocess

from tests.paths import ROOT

OF_NO_PACKAGE = {"repository", "system"}
RECORDER = "tests/spec/prometheus/recorded/record.py"
"""Run by itself, outside of a test run."""


def tracked() -> list[str]:
    """The files of tests/, new ones that are not committed yet included."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "tests"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    return [name for name in found if (ROOT / name).is_file()]


def test_the_folders_are_those_of_the_packages() -> None:
    folders = {name.split("/")[1] for name in tracked() if name.count("/") > 1}
    packages = {folder for folder in folders if (ROOT / folder).is_dir()}
    assert folders - packages == OF_NO_PACKAGE


def test_the_readme_lists_every_folder_and_every_shared_module() -> None:
    listed = re.findall(r"^\| `([\w/.]+)` \|", (ROOT / "tests" / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    there = set()
    for _, *folders, file in (name.split("/") for name in tracked()):
        depth = 2 if folders[:1] == ["system"] else 1
        there.add("".join(f"{folder}/" for folder in folders[:depth]) if folders else file)
    assert sorted(listed) == sorted(there - {"README.md"})


def test_no_other_module_counts_its_way_up_to_the_checkout() -> None:
    counting = re.compile(r"__file__\)(?:\.resolve\(\))?\.parents\[")
    found = {name for name in tracked() if name.endswith(".py") and counting.search((ROOT / name).read_text())}
    assert found - {RECORDER} == {"tests/paths.py"}
