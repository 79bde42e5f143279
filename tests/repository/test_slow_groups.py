"""`.ci/slow` runs one group of slow tests for each commit, and records the result."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from tests.paths import ROOT
from tests.repository.workflows import workflow_files
from tests.repository.workflows.stand_ins import StandIns

_GROUPS = {"make --no-print-directory slow-groups": ("keda hpa\n", 0)}
NEWEST = ROOT / "tests" / "slow_tests.txt"
E2E = ROOT / "tests" / "system" / "e2e"
_IDENTITY = ["-c", "user.name=a", "-c", "user.email=a@b"]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    (folder / ".ci").mkdir(parents=True)
    shutil.copy(ROOT / ".ci" / "slow", folder / ".ci")
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
    return folder


@pytest.fixture
def make(tmp_path: Path) -> StandIns:
    """A fake `make`, whose checkout has two groups of end-to-end tests."""
    (tmp_path / "bin").mkdir()
    stand_ins = StandIns(tmp_path / "stand-ins", tmp_path / "bin")
    stand_ins.put("make")
    stand_ins.answer(_GROUPS)
    return stand_ins


def commit(checkout: Path) -> str:
    command = ["git", *_IDENTITY, "commit", "--quiet", "--allow-empty", "--message", "one more"]
    subprocess.run(command, cwd=checkout, check=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=checkout, check=True, capture_output=True, text=True)
    return head.stdout.strip()


def slow(checkout: Path, *group: str, **environment: str) -> int:
    path = os.pathsep.join([str(checkout.parent / "bin"), os.environ["PATH"]])
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "GIT_"))}
    # From another directory: the script finds its own directory.
    command = [str(checkout / ".ci" / "slow"), *group]
    return subprocess.run(command, cwd="/", env={**inherited, "PATH": path, **environment}, check=False).returncode


def test_each_commit_has_the_next_group_and_the_first_comes_again_after_the_last(checkout: Path, make: StandIns) -> None:
    recorded = []
    for _ in range(4):
        revision = commit(checkout)
        assert slow(checkout) == 0
        recorded.append(revision)
    asked = [call for call in make.calls if "slow-groups" not in call]
    assert asked == [
        "make e2e-slow GROUP=hpa",
        "make test-properties",
        "make e2e-slow GROUP=keda",
        "make e2e-slow GROUP=hpa",
    ]
    lines = (checkout / ".records" / "slow").read_text().splitlines()
    groups = ["hpa", "properties", "keda", "hpa"]
    assert [re.sub(r"^\S+Z | in \d+ s$", "", line) for line in lines] == [
        f"{revision} {group} passed" for revision, group in zip(recorded, groups, strict=True)
    ]


def test_a_group_that_fails_is_recorded_here_and_in_the_summary_of_the_job(
    checkout: Path, make: StandIns, tmp_path: Path
) -> None:
    revision = commit(checkout)
    make.answer({**_GROUPS, "make e2e-slow GROUP=keda": ("", 2)})
    assert slow(checkout, "keda", GITHUB_STEP_SUMMARY=str(tmp_path / "summary")) == 1
    (line,) = (checkout / ".records" / "slow").read_text().splitlines()
    assert f" {revision} keda failed in " in line
    assert (tmp_path / "summary").read_text() == f"{line}\n"


def test_on_demand_the_newest_run_of_each_group_is_kept_in_the_repository(checkout: Path, make: StandIns) -> None:
    kept = checkout / "tests" / NEWEST.name
    kept.parent.mkdir()
    kept.write_text("# The newest\n")
    subprocess.run(["git", "add", "tests"], cwd=checkout, check=True)
    revision = commit(checkout)
    make.answer({**_GROUPS, "make e2e-slow GROUP=hpa": ("", 2)})
    assert [slow(checkout, group, RECORD="1") for group in ("keda", "hpa", "keda")] == [0, 1, 0]
    assert slow(checkout, "hpa") == 1
    said = [re.sub(r"^\S+Z | in \d+ s$", "", line) for line in kept.read_text().splitlines()]
    assert said == ["# The newest", f"{revision} hpa failed", f"{revision} keda passed"]
    (checkout / "tests" / "changed").touch()
    subprocess.run(["git", "add", "tests"], cwd=checkout, check=True)
    assert slow(checkout, "keda", RECORD="1") == 0
    assert f" {revision}-dirty keda passed in " in kept.read_text()


def test_what_is_recorded_names_a_revision_and_a_group() -> None:
    lines = [line for line in NEWEST.read_text().splitlines() if not line.startswith("#")]
    said = subprocess.run(
        ["make", "--no-print-directory", "slow-groups"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    group = "|".join([*said.stdout.split(), "properties", "e2e"])
    form = re.compile(rf"\d{{4}}-\d\d-\d\dT[\d:]{{8}}Z [0-9a-f]{{40}}(-dirty)? ({group}) (passed|failed) in \d+ s")
    assert [line for line in lines if not form.fullmatch(line)] == []


def asked_of(target: str, *variables: str) -> list[str]:
    """Return the words of the commands that a target runs."""
    command = ["make", "--dry-run", target, *variables]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()


def left_out(target: str) -> list[str]:
    """Return the paths that a target excludes."""
    return [after for word, after in pairwise(asked_of(target)) if word == "--ignore"]


def of_tests(words: list[str]) -> list[str]:
    """Return the paths of tests among the words."""
    return [word for word in words if word.startswith("tests/")]


def test_each_group_is_files_that_make_e2e_leaves_out_and_has_a_job_every_night() -> None:
    said = subprocess.run(
        ["make", "--no-print-directory", "slow-groups"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    groups = said.stdout.split()
    elsewhere = left_out("e2e")
    for group in groups:
        own = [*E2E.glob(f"test_{group}.py"), *E2E.glob(f"test_{group}_*.py")]
        files = sorted(str(file.relative_to(ROOT)) for file in own)
        assert files and [file for file in files if file not in elsewhere] == [], group
        assert of_tests(asked_of("e2e-slow", f"GROUP={group}")) == files
    nightly = workflow_files.load("nightly")["jobs"]["slow"]["strategy"]["matrix"]["group"]
    assert nightly == [*groups, "properties"]


def test_what_make_test_leaves_out_is_tested_by_make_e2e() -> None:
    paths = left_out("test")
    assert paths and set(paths) <= set(of_tests(asked_of("e2e")))
    assert [path for path in paths if not (ROOT / path).exists()] == []
    guards = {"tests/twin/host", "tests/twin/commands", "tests/twin/test_makefile.py"}
    assert guards.isdisjoint(paths)


def test_each_test_that_make_test_leaves_out_can_be_collected() -> None:
    """Many commits pass before a group runs again; until then, no other check shows that its tests cannot start."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "--quiet", "-p", "no:cacheprovider", *left_out("test")]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == pytest.ExitCode.OK, done.stdout[-2000:]
