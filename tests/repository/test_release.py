"""`make release`: it refuses all mistakes at once, and creates the parts of a release."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.paths import ROOT

_MAKE = """#!/usr/bin/env bash
set -euo pipefail
echo "$*" >>../make
case "$*" in
  "--no-print-directory slow-groups") echo "keda hpa" ;;
  test) exit "$(cat ../test-exits)" ;;
  record-release) git rev-parse HEAD >tests/system/upgrade/recorded.txt ;;
esac
"""
_CHANGELOG = "# Changelog\n\n## Unreleased\n\nThe first.\n\n### Before\n\n* A step.\n"
_GROUPS = ("e2e", "properties", "keda", "hpa")


class Checkout:
    """A repository with the files that the command reads, in a folder with the `make` that it calls."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / ".ci").mkdir(parents=True)
        shutil.copy(ROOT / ".ci" / "release", folder / ".ci")
        (folder / "tests/system/upgrade").mkdir(parents=True)
        (folder / "tests/system/upgrade/recorded.txt").write_text("an older release\n")
        (folder / "tests/slow_tests.txt").write_text("# runs\n")
        (folder / ".gitignore").write_text("/.records/\n")
        (folder / "CHANGELOG.md").write_text(_CHANGELOG)
        (folder.parent / "make").write_text("")
        (folder.parent / "test-exits").write_text("0")
        (folder.parent / "bin").mkdir()
        (folder.parent / "bin/make").write_text(_MAKE)
        (folder.parent / "bin/make").chmod(0o755)
        self.git("init", "--quiet")
        self.commit()

    def git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=self.folder, env=self._env, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def commit(self) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "one more")

    def record(self, *groups: str, result: str = "passed", revision: str | None = None, file: str = ".records/slow") -> None:
        """Record runs of groups of slow tests on the present revision."""
        path = self.folder / file
        path.parent.mkdir(exist_ok=True)
        lines = [
            f"2026-11-28T00:00:00Z {revision or self.git('rev-parse', 'HEAD')} {one} {result} in 9 s\n" for one in groups
        ]
        with path.open("a") as records:
            records.writelines(lines)

    def release(self, version: str = "0.1.0") -> subprocess.CompletedProcess[str]:
        command = [str(self.folder / ".ci/release"), version]
        return subprocess.run(command, cwd="/", env=self._env, check=False, capture_output=True, text=True)

    @property
    def calls(self) -> list[str]:
        return (self.folder.parent / "make").read_text().splitlines()

    @property
    def _env(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        path = os.pathsep.join([str(self.folder.parent / "bin"), kept["PATH"]])
        who = {f"GIT_{role}_{of}": "a@example.com" for role in ("AUTHOR", "COMMITTER") for of in ("NAME", "EMAIL")}
        return {**kept, **who, "PATH": path, "GIT_CONFIG_GLOBAL": "/dev/null"}


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path / "checkout")


def test_a_release_is_a_commit_and_a_tag_with_the_notes(checkout: Checkout) -> None:
    checkout.record(*_GROUPS)
    before = checkout.git("rev-parse", "HEAD")
    done = checkout.release()
    assert done.returncode == 0, done.stderr
    assert checkout.calls == ["--no-print-directory slow-groups", "test", "record-release"]
    assert checkout.git("rev-parse", "HEAD~1") == before
    assert checkout.git("rev-parse", "v0.1.0^{commit}") == checkout.git("rev-parse", "HEAD")
    assert checkout.git("show", "HEAD:tests/system/upgrade/recorded.txt") == before
    assert checkout.git("tag", "--list", "v0.1.0", "--format=%(contents)") == (
        "0.1.0\n\nThe first.\n\n### Before\n\n* A step."
    )
    changelog = (checkout.folder / "CHANGELOG.md").read_text()
    assert changelog.startswith("# Changelog\n\n## Unreleased\n\n## 0.1.0 (2")
    assert changelog.partition(")\n")[2] == "\nThe first.\n\n### Before\n\n* A step.\n"
    assert checkout.git("status", "--porcelain") == ""
    assert "  git push origin HEAD:main v0.1.0\n" in done.stdout


def test_everything_that_is_missing_is_told_at_once_and_nothing_changes(checkout: Checkout) -> None:
    checkout.git("tag", "v0.2.0")
    checkout.record("e2e", "hpa")
    checkout.record("keda", result="failed")
    checkout.record("properties", revision="0" * 40)
    (checkout.folder / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n\n## 0.2.0 (2026-01-01)\n\nOlder.\n")
    before = checkout.git("rev-parse", "HEAD")
    done = checkout.release("0.1.9")
    assert (done.returncode, done.stderr.splitlines()) == (
        1,
        [
            "release: VERSION 0.1.9 is not above the last release, v0.2.0",
            "release: the checkout has changes; commit them",
            "release: CHANGELOG.md has nothing under '## Unreleased'",
            "release: no passed run of properties is of this code; run .ci/slow properties",
            "release: no passed run of keda is of this code; run .ci/slow keda",
        ],
    )
    assert (checkout.git("rev-parse", "HEAD"), checkout.git("tag"), "test" in checkout.calls) == (before, "v0.2.0", False)


@pytest.mark.parametrize("version", ["", "0.1", "v0.1.0", "0.1.0; ls"])
def test_a_version_is_three_numbers(checkout: Checkout, version: str) -> None:
    checkout.record(*_GROUPS)
    done = checkout.release(version)
    assert done.returncode == 1
    assert f"release: VERSION '{version}' is no version; write one like 0.1.0\n" in done.stderr


def test_a_version_is_compared_by_number(checkout: Checkout) -> None:
    checkout.git("tag", "v0.9.0")
    checkout.record(*_GROUPS)
    assert checkout.release("0.10.0").returncode == 0


@pytest.mark.parametrize(("changed", "exit_code"), [("tests/slow_tests.txt", 0), ("CHANGELOG.md", 0), (".gitignore", 1)])
def test_a_run_counts_until_the_code_changes(checkout: Checkout, changed: str, exit_code: int) -> None:
    """The commit that stores the record of a run comes after that run."""
    checkout.record(*_GROUPS)
    (checkout.folder / changed).write_text((checkout.folder / changed).read_text() + "more\n")
    checkout.commit()
    assert checkout.release().returncode == exit_code


def test_a_run_that_was_committed_counts(checkout: Checkout) -> None:
    checkout.record(*_GROUPS, file="tests/slow_tests.txt")
    checkout.commit()
    assert checkout.release().returncode == 0


def test_when_a_test_fails_there_is_no_release(checkout: Checkout) -> None:
    checkout.record(*_GROUPS)
    (checkout.folder.parent / "test-exits").write_text("2")
    before = checkout.git("rev-parse", "HEAD")
    assert checkout.release().returncode == 2
    assert (checkout.git("rev-parse", "HEAD"), checkout.git("tag"), checkout.calls[-1]) == (before, "", "test")
