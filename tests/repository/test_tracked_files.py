"""The repository tracks only text that people write: no binary file, and no build result."""

from __future__ import annotations

import subprocess

from tests.paths import ROOT

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


def git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_no_tracked_file_is_binary() -> None:
    """`git diff --numstat` counts no lines of a binary file."""
    assert [line for line in git("diff", "--numstat", EMPTY_TREE, "HEAD") if line.startswith("-")] == []


def test_no_tracked_file_is_a_build_result() -> None:
    assert git("ls-files", "--cached", "--ignored", "--exclude-standard") == []
