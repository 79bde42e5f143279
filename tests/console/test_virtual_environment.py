"""`python3 -m twin`, `python3 -m modelctl` and the others with a Python that is not the checkout's."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import ROOT


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a checkout with a package `tool` that enters the environment and reports it."""
    package = tmp_path / "tool"
    package.mkdir()
    (package / "__main__.py").write_text(
        "from console import virtual_environment\nvirtual_environment.enter('tool')\nprint('entered')\n"
    )
    (tmp_path / "console").mkdir()
    shutil.copy(ROOT / "console" / "virtual_environment.py", tmp_path / "console")
    return tmp_path


def run(checkout: Path, *arguments: str, package: str = "tool") -> subprocess.CompletedProcess[str]:
    """Run `python -m <package>` with a Python that has only the standard library."""
    command = [sys.executable, "-S", "-m", package, *arguments]
    return subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False, timeout=30)


def test_without_an_environment_it_is_said_how_to_make_one(checkout: Path) -> None:
    done = run(checkout, "status")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "error: this checkout has no Python environment yet: `make venv` makes it, and so does `make up`\n"
    )


def test_the_evaluated_output_of_env_is_false_then(checkout: Path) -> None:
    assert run(checkout, "env").stdout == "false\n"


def test_the_checkouts_environment_is_gone_on_with(checkout: Path) -> None:
    python = checkout / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho "in the environment: $*"\n')
    python.chmod(0o755)
    done = run(checkout, "release", "models/")
    assert (done.returncode, done.stdout) == (0, "in the environment: -m tool release models/\n")


@pytest.mark.parametrize("command", ["stackctl", "modelctl", "twin"])
def test_every_command_does_it_before_it_needs_a_package(command: str, checkout: Path) -> None:
    shutil.rmtree(checkout / "console")
    for package in ("console", "spec", command):
        shutil.copytree(ROOT / package, checkout / package, ignore=shutil.ignore_patterns("tools", "__pycache__"))
    done = run(checkout, "prod", package=command)
    assert (done.returncode, done.stderr) == (
        2,
        "error: this checkout has no Python environment yet: `make venv` makes it, and so does `make up`\n",
    )
