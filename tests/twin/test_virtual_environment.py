"""`python3 -m twin`, `python3 -m modelctl` and the others with a Python that is not the checkout's."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from twin.host.home import REPOSITORY


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with a package `tool` that enters the environment and says so."""
    shutil.copy(REPOSITORY / "virtual_environment.py", tmp_path)
    package = tmp_path / "tool"
    package.mkdir()
    (package / "__main__.py").write_text("import virtual_environment\nvirtual_environment.enter('tool')\nprint('entered')\n")
    return tmp_path


def run(checkout: Path, *arguments: str, package: str = "tool") -> subprocess.CompletedProcess[str]:
    """`python -m <package>` with a Python that has the standard library only."""
    command = [sys.executable, "-S", "-m", package, *arguments]
    return subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False, timeout=30)


def test_without_an_environment_it_is_said_how_to_make_one(checkout: Path) -> None:
    done = run(checkout, "status")
    assert (done.returncode, done.stdout) == (1, "")
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


PACKAGES = (
    "twin",
    "modelctl",
    "stackctl.cost",
    "stackctl.preflight",
    "stackctl.orphans",
    "stackctl.destroy",
    "stackctl.rules",
)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_documented_command_line_does_it_before_it_needs_a_package(package: str, checkout: Path) -> None:
    folder = package.partition(".")[0]
    (checkout / folder).symlink_to(REPOSITORY / folder)
    assert f'virtual_environment.enter("{package}")' in (REPOSITORY / package.replace(".", "/") / "__main__.py").read_text()
    done = run(checkout, "prod", package=package)
    assert (done.returncode, done.stderr) == (
        1,
        "error: this checkout has no Python environment yet: `make venv` makes it, and so does `make up`\n",
    )
