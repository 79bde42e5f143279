"""The command line: its messages without a twin, and when it is interrupted."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from console import program
from console.program import Interrupted, interruptible
from tests.twin import go_stand_in
from twin import cli
from twin.commands import up
from twin.host import processes
from twin.host.home import REPOSITORY, TwinHome
from twin.host.processes import Service
from twin.services.servers import Servers


def twin(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "twin", *arguments]
    env = {**os.environ, "TWIN_HOME": str(home), "NO_COLOR": "1"}
    return subprocess.run(command, cwd=REPOSITORY, env=env, capture_output=True, text=True, check=False, timeout=60)


def test_env_without_a_twin_prints_lines_that_are_false_and_say_why(tmp_path: Path) -> None:
    done = twin(tmp_path / "home", "env")
    assert (done.returncode, done.stderr) == (2, "")
    said = f"no twin is up at {tmp_path / 'home'}; start it with `make up`, or set TWIN_HOME to where one is"
    assert done.stdout == f"printf '%s\\n' 'error: {said}' >&2\nfalse\n"


def test_an_unknown_revision_is_told_before_anything_starts(tmp_path: Path) -> None:
    done = twin(tmp_path / "home", "preview", "dev", "--against", "no-such-branch")
    assert done.returncode == 2
    assert done.stderr.startswith("error: no-such-branch: git knows no commit of that name")
    assert not (tmp_path / "home").exists()


def test_a_first_preview_compares_with_no_revision(tmp_path: Path) -> None:
    done = twin(tmp_path / "home", "preview", "dev", "--first", "--against", "HEAD")
    assert done.returncode == 2
    assert "--first: with --against the cluster exists; give one of the two" in done.stderr
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("forms", [("--diff", "--json"), ("--json", "--events"), ("--diff", "--json", "--events")])
def test_a_preview_has_one_form_of_output(tmp_path: Path, forms: tuple[str, ...]) -> None:
    done = twin(tmp_path / "home", "preview", "dev", *forms)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{' and '.join(forms)}: each is a form of the output; give one of them" in done.stderr
    assert not (tmp_path / "home").exists()


def test_a_rehearsal_is_of_a_state_or_from_a_revision(tmp_path: Path) -> None:
    done = twin(tmp_path / "home", "rehearse")
    assert (done.returncode, done.stdout) == (2, "")
    said = "give --state FILE (of a real stack), --from REV (of `local`), or both"
    assert said in " ".join(done.stderr.replace("│", "").split())
    assert not (tmp_path / "home").exists()


def test_down_says_when_this_shell_still_points_to_a_twin_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TWIN_SHELL", str(tmp_path / "home"))
    last = twin(tmp_path / "home", "down").stdout.splitlines()[-1]
    assert last == "this shell still points to the twin that is gone: type leave_twin, or go on in a new shell"
    monkeypatch.setenv("TWIN_SHELL", str(tmp_path / "another"))
    assert "this shell" not in twin(tmp_path / "home", "down").stdout


def test_ctrl_c_ends_with_what_is_left(tmp_path: Path) -> None:
    home = TwinHome(tmp_path)
    with pytest.raises(Interrupted, match=r"^stopped by Ctrl-C; nothing of the twin is running\. "):
        interrupt(home)
    record = processes.start(home, Service("etcd", ("sleep", "60"), {"PATH": os.defpath}, tmp_path))
    try:
        with pytest.raises(Interrupted, match=r"^stopped by Ctrl-C; still running: etcd\. "):
            interrupt(home)
    finally:
        processes.stop(home, record)


class Cluster:
    """Fake servers that record their programs."""

    def __init__(self, home: TwinHome, programs: Mapping[str, Path], say: object) -> None:
        self.programs = dict(programs)


@pytest.fixture
def previewed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Return the programs at each preview of `up`; later programs are built after Pulumi."""
    found: list[list[str]] = []
    go_stand_in.install(tmp_path, monkeypatch)
    monkeypatch.setenv("GO_WAITS_FOR", str(tmp_path / "previewed"))

    def preview(servers: Cluster, say: object) -> None:
        found.append(sorted(servers.programs))
        (tmp_path / "previewed").touch()

    monkeypatch.setattr(up, "preview", preview)
    monkeypatch.setattr(Servers, "without_cluster", Cluster)
    go_stand_in.script(tmp_path / "bin" / "pulumi", "#!/bin/sh\necho v3.272.0\n")
    return found


def test_the_first_up_previews_what_it_will_make_while_the_cluster_is_built(
    tmp_path: Path, previewed: list[list[str]]
) -> None:
    programs = up.programs(TwinHome(tmp_path / "home"), [], cli.output)
    assert previewed == [["pulumi"]]
    assert {"pulumi", "etcd", "kube-apiserver", "kwok", "kubectl"} < set(programs)
    # Everything exists, so it does not wait.
    assert up.programs(TwinHome(tmp_path / "another"), [], cli.output) == programs
    assert len(previewed) == 1


def test_a_twin_that_was_up_before_is_not_previewed_when_a_pin_has_changed(
    tmp_path: Path, previewed: list[list[str]]
) -> None:
    home = TwinHome(tmp_path / "home")
    home.save_endpoints(kubeconfig=str(home.kubeconfig))
    (tmp_path / "previewed").touch()
    up.programs(home, [], cli.output)
    assert previewed == []


def test_what_is_typed_after_pulumi_is_pulumis_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--debug` is also an option of `pulumi`: `bin/pulumi` puts `--` before the arguments."""
    given: list[list[str]] = []

    class Pulumi:
        def run(self, stack: str, arguments: list[str]) -> int:
            given.append([stack, *arguments])
            return 255

    class Cluster:
        def engine(self) -> Pulumi:
            return Pulumi()

    monkeypatch.setenv("TWIN_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(Servers, "running", lambda home: Cluster())
    code = program.run("twin", ["pulumi", "--", "preview", "--debug", "-s", "dev", "--", "--debug"])
    assert (code, given) == (255, [["dev", "preview", "--debug", "-s", "dev", "--", "--debug"]])


def interrupt(home: TwinHome) -> None:
    with interruptible(lambda: cli._left(home)):
        raise KeyboardInterrupt
