"""What `make` does in a fresh clone before anything is installed."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from twin.home import REPOSITORY


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    folder = tmp_path / "clone"
    folder.mkdir()
    shutil.copy(REPOSITORY / "Makefile", folder)
    return folder


def make(clone: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`make`, in the environment of a person who has nothing set up but `environment`."""
    env = {"PATH": os.environ["PATH"], "HOME": str(clone.parent), **environment}
    return subprocess.run(["make", *arguments], cwd=clone, env=env, capture_output=True, text=True, check=False, timeout=60)


def test_down_installs_nothing_to_find_out_that_there_is_nothing(clone: Path) -> None:
    done = make(clone, "down")
    assert (done.returncode, done.stdout) == (0, "there is no twin at .twin\n")
    assert not (clone / ".venv").exists()


def test_clean_says_what_it_leaves_and_how_to_remove_that(clone: Path) -> None:
    (clone / "twin" / "__pycache__").mkdir(parents=True)
    done = make(clone, "clean")
    assert done.returncode == 0
    assert f"rm -rf {clone.parent}/.cache/triton-eks" in done.stdout
    assert "go clean -cache -modcache" in done.stdout
    assert not (clone / ".venv").exists()
    assert not (clone / "twin" / "__pycache__").exists()


@pytest.mark.parametrize(
    ("variables", "option"),
    [
        pytest.param([], "", id="not told"),
        pytest.param(["AUTOSCALING=1"], "--autoscaling", id="told to"),
        pytest.param(["AUTOSCALING=0"], "", id="told not to"),
    ],
)
def test_up_asks_for_autoscaling_when_it_is_told_to(clone: Path, variables: list[str], option: str) -> None:
    (clone / "requirements").mkdir()
    for name in ("bootstrap.txt", "dev.txt"):
        (clone / "requirements" / name).touch()
    said = make(clone, "--dry-run", "up", *variables).stdout.splitlines()
    assert said[-1].strip() == f".venv/bin/python -m twin up {option}".strip()


def test_an_environment_behind_a_link_is_not_emptied(clone: Path) -> None:
    """`venv --clear` goes through a link and empties what may be another checkout's."""
    (clone / "requirements").mkdir()
    for lock in ("bootstrap", "dev"):
        (clone / "requirements" / f"{lock}.txt").touch()
    shared = clone.parent / "shared"
    shared.mkdir()
    (shared / "kept").touch()
    (clone / ".venv").symlink_to(shared)
    done = make(clone, "venv")
    assert done.returncode == 2
    assert done.stderr.startswith(f"make: .venv is a link to {shared}, which making it anew would empty; remove the link, ")
    assert list(shared.iterdir()) == [shared / "kept"]


def test_help_aligns_what_it_says_of_every_target(clone: Path) -> None:
    lines = make(clone, "help").stdout.splitlines()
    assert len(lines) > 15
    columns = {len(line) - len(line[2:].partition(" ")[2].partition(" ")[2].lstrip()) for line in lines}
    assert columns == {23}


def test_what_is_compiled_is_kept_whatever_the_machine_says(clone: Path) -> None:
    rule = 'seen: ; @echo "$${PYTHONDONTWRITEBYTECODE-unset}"'
    assert make(clone, f"--eval={rule}", "seen", PYTHONDONTWRITEBYTECODE="1").stdout == "unset\n"
