"""Directories that a twin claims and `down` removes; all others stay unchanged."""

import contextlib
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from tests.command import Ended, run
from twin.commands import down as down_command
from twin.host import claim, processes
from twin.host.claim import MARKER, NotATwin
from twin.host.home import REPOSITORY, TwinHome
from twin.host.processes import Service
from twin.services import leftovers, scratch

NOBODY = 65534


def listed(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def twin(home: str | Path, *arguments: str, **environment: str) -> Ended:
    with mock.patch.dict(os.environ, {"TWIN_HOME": str(home), **environment}):
        return run("twin", *arguments)


def down(home: TwinHome) -> list[str]:
    return list(down_command.down(home))


@pytest.fixture
def persons(tmp_path: Path) -> Path:
    """Return a directory with a user's work, some of it with the names of a twin's files."""
    folder = tmp_path / "persons"
    for name in ("thesis.tex", "logs/of-1998", "run/me.sh", "lock", "endpoints.json", "cache/photo"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


@pytest.mark.parametrize("arguments", [["down"], ["up"], ["status"], ["env"], ["preview", "dev"], ["load"]])
def test_every_command_refuses_a_directory_that_is_not_a_twins(persons: Path, arguments: list[str]) -> None:
    before = listed(persons)
    done = twin(persons, *arguments)
    assert done.exit_code == 2
    said = done.stderr or done.stdout
    assert f"s directory: it has cache, endpoints.json, lock, logs and 2 more, and no {MARKER} as a twin writes it. " in said
    assert "Nothing in it was touched. Set TWIN_HOME to a directory that is empty, or does not exist yet." in said
    assert "Traceback" not in said
    assert listed(persons) == before


def test_a_removal_itself_refuses_a_directory_that_is_not_a_twins(persons: Path) -> None:
    before = listed(persons)
    for name in sorted(claim.CONTENTS - {claim.LOCK})[:3]:
        (persons / name).mkdir()  # a twin's names

    with pytest.raises(NotATwin):
        claim.remove(persons, keep_directory=False)

    assert listed(persons) == sorted([*before, *sorted(claim.CONTENTS - {claim.LOCK})[:3]])


def test_what_is_below_a_persons_directory_is_a_twin_of_its_own(persons: Path) -> None:
    home = TwinHome(persons / "twin")
    before = listed(persons)
    with home.lock("up"):
        (home.path / "logs").mkdir()
    assert down(home) == ["stopped nothing: no process was running", f"removed {home.path}"]
    assert listed(persons) == before


@pytest.mark.parametrize(
    ("given", "said"),
    [
        # Only checked: no command that could remove anything runs on these.
        ("/", " has the checkout in it"),
        (str(REPOSITORY), " is the checkout, which no twin takes"),
        (str(REPOSITORY.parent), " has the checkout in it"),
        (f"{REPOSITORY}/twin/..", " is the checkout, which no twin takes"),
        ("~", " is your home directory, which no twin takes"),
        ("~/..", " has your home directory in it"),
    ],
)
def test_what_never_is_a_twins_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, said: str) -> None:
    (tmp_path / "person").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    with pytest.raises(NotATwin) as refused:
        claim.check(claim.resolved(given))
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("~no-such-user/twin", "TWIN_HOME is ~no-such-user/twin: Could not determine home directory"),
        ("{tmp}/file", "{tmp}/file is a file: set TWIN_HOME to a directory that is empty, or does not exist yet"),
        ("{tmp}/file/twin", "{tmp}/file/twin cannot be written: Not a directory; set TWIN_HOME to a directory of yours"),
        ("{tmp}/circle/twin", "Symlink loop"),
        ("{tmp}/" + "x" * 256, "File name too long; set it to another directory"),
        ("{tmp}/" + "x/" * 600, "longer than 1000 bytes; set it to a shorter path"),
        ("{tmp}/a\nb", "a path with a character that cannot be seen; set it to another directory"),
    ],
)
def test_a_home_that_cannot_be_made_is_a_sentence(tmp_path: Path, given: str, said: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "circle").symlink_to("circle")
    done = twin(given.replace("{tmp}", str(tmp_path)), "up")
    assert done.exit_code == 2
    assert said.replace("{tmp}", str(tmp_path)) in done.stderr
    assert "Traceback" not in done.stderr
    assert listed(tmp_path) == ["circle", "file"]


@contextlib.contextmanager
def without_roots_rights() -> Iterator[None]:
    """Let the kernel refuse root like an ordinary user, by the effective user id."""
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


def test_a_home_that_may_not_be_written_is_a_sentence() -> None:
    # Not below tmp_path, which only its owner may enter.
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o555)
        home = Path(folder).resolve() / "home"
        said = f"^{re.escape(str(home))} cannot be written: Permission denied; set TWIN_HOME to a directory of yours$"
        with without_roots_rights(), pytest.raises(NotATwin, match=said):
            claim.claim(home)
        assert listed(Path(folder)) == []


def test_an_empty_home_directory_is_no_twins_either(tmp_path: Path) -> None:
    done = twin("~", "up", HOME=str(tmp_path))
    assert f"{tmp_path} is your home directory, which no twin takes: set TWIN_HOME" in done.stderr
    assert listed(tmp_path) == []


def test_a_relative_home_and_one_with_a_tilde_are_directories_like_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for given in ("one", "~/one", f"{tmp_path}/other/../one/"):
        monkeypatch.setenv("TWIN_HOME", given)
        home = TwinHome.from_environment()
        assert home.path == tmp_path / "one"
        with home.lock("up"):
            pass
        assert down(home)[-1] == f"removed {tmp_path}/one"
        assert listed(tmp_path) == []


def test_a_twin_is_removed_whole_and_what_is_not_its_own_is_left_and_named(tmp_path: Path) -> None:
    home = TwinHome(tmp_path / "home")
    with home.lock("up"):
        home.save_endpoints(aws_url="http://127.0.0.1:1")
        for name in sorted(claim.CONTENTS - {claim.LOCK, claim.ENDPOINTS}):
            (home.path / name).mkdir()
            (home.path / name / "file").touch()
        (home.path / "notes.txt").write_text("mine")
        (home.path / "photos").mkdir()
        (home.path / "photos" / "1.jpg").touch()
    said = down(home)
    assert said[-1] == f"removed the twin from {home.path}; left there, as no twin has made it: notes.txt, photos"
    assert listed(home.path) == ["notes.txt", "photos", "photos/1.jpg"]
    with pytest.raises(NotATwin, match=r"it has notes\.txt, photos, and no twin\.json"):
        down(home)


def test_an_empty_directory_may_become_a_twins_and_is_empty_again_afterwards(tmp_path: Path) -> None:
    home = TwinHome(tmp_path / "home")
    home.path.mkdir(mode=0o700)
    with home.lock("up"):
        (home.path / "logs").mkdir()
    assert down(home)[-1] == f"removed the twin from {home.path}, which was there before it and is empty again"
    assert listed(tmp_path) == ["home"]


def test_down_on_an_empty_directory_says_that_there_is_no_twin(tmp_path: Path) -> None:
    assert down(TwinHome(tmp_path)) == [f"there is no twin at {tmp_path}"]
    assert listed(tmp_path) == []


def test_a_link_to_a_twins_directory_leads_to_one_afterwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    with TwinHome(real).lock("up"):
        (real / "logs").mkdir()
    link.symlink_to(real)
    monkeypatch.setenv("TWIN_HOME", str(link))
    down(TwinHome.from_environment())
    assert link.is_symlink() and link.is_dir()
    assert listed(real) == []


def test_links_in_a_twins_directory_are_removed_and_not_what_they_lead_to(tmp_path: Path, persons: Path) -> None:
    home = TwinHome(tmp_path / "home")
    with home.lock("up"):
        (home.path / "cache").symlink_to(persons)
        (home.path / "logs").mkdir()
        (home.path / "logs" / "persons").symlink_to(persons)
    before = listed(persons)
    down(home)
    assert listed(persons) == before
    assert not home.path.exists()


def test_a_copy_of_a_twin_and_one_that_was_moved_are_left_alone(tmp_path: Path) -> None:
    home = TwinHome(tmp_path / "home")
    with home.lock("up"):
        (home.path / "logs").mkdir()
    copy, moved = tmp_path / "copy", tmp_path / "moved"
    shutil.copytree(home.path, copy)
    home.path.rename(moved)
    for path in (copy, moved):
        before = listed(path)
        with pytest.raises(NotATwin) as refused:
            down(TwinHome(path))
        assert str(refused.value) == (
            f"{path} is a copy of the twin's directory {home.path}, or was moved from there: move it back, or remove it "
            "yourself when nothing in it is needed any more"
        )
        assert listed(path) == before


@pytest.mark.parametrize("content", ["", "{", "[]", '{"directory": 1}', "\0"])
def test_a_marker_that_no_twin_has_written_makes_no_twin(persons: Path, content: str) -> None:
    (persons / MARKER).write_text(content)
    before = listed(persons)
    with pytest.raises(NotATwin):
        down(TwinHome(persons))
    assert listed(persons) == before


def test_the_checkout_is_left_alone_even_with_a_marker_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim, "_CHECKOUT", tmp_path)
    (tmp_path / MARKER).write_text(json.dumps({"directory": str(tmp_path), "madeIt": True}))
    (tmp_path / "bin").mkdir()
    with pytest.raises(NotATwin, match="is the checkout"):
        claim.remove(tmp_path, keep_directory=False)
    assert listed(tmp_path) == ["bin", MARKER]


def test_an_up_that_was_killed_while_it_wrote_its_marker_is_gone_on_with(tmp_path: Path) -> None:
    home = TwinHome(tmp_path / "home")
    home.path.mkdir()
    (home.path / ".new-12-abcdef01").write_text("{")
    with home.lock("up"):
        pass
    assert claim.check(home.path)
    down(home)
    assert listed(tmp_path) == ["home"]


def _earlier(path: Path) -> None:
    for name in ("etcd/member", "run/moto.json", "logs/moto.log", "pki/ca.crt", "lock", "kubeconfig"):
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).touch()


def test_a_twin_from_before_there_were_markers_is_recognized_and_removed(tmp_path: Path) -> None:
    _earlier(tmp_path / "home")
    assert down(TwinHome(tmp_path / "home"))[-1] == f"removed {tmp_path}/home"
    assert listed(tmp_path) == []


@pytest.mark.parametrize("missing_or_more", ["-pki/ca.crt", "-lock", "-etcd", "+thesis.tex"])
def test_what_only_resembles_one_is_left_alone(tmp_path: Path, missing_or_more: str) -> None:
    path = tmp_path / "home"
    _earlier(path)
    what = path / missing_or_more[1:]
    if missing_or_more[0] == "+":
        what.touch()
    elif what.is_dir():
        shutil.rmtree(what)
    else:
        what.unlink()
    before = listed(path)
    with pytest.raises(NotATwin):
        down(TwinHome(path))
    assert listed(path) == before


def test_a_scratch_twin_removes_itself_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch.Servers, "start", lambda own, *_, **__: own)
    monkeypatch.setattr(scratch.tools, "ensure", lambda *_: {})
    home = TwinHome(tmp_path / "home")
    with scratch.twin(home, None) as own:  # type: ignore[arg-type]
        (own.path / "logs").mkdir()  # type: ignore[attr-defined]
        assert leftovers.scratch_twins(home) == [own]
    assert listed(home.path) == ["scratch", MARKER]


def test_a_scratch_twin_begins_in_no_persons_directory(persons: Path) -> None:
    before = listed(persons)
    with pytest.raises(NotATwin), scratch.twin(TwinHome(persons), None):  # type: ignore[arg-type]
        pass
    assert listed(persons) == before


@pytest.fixture
def running(tmp_path: Path) -> Iterator[TwinHome]:
    """Yield a twin with one process that ignores SIGTERM for a moment and writes."""
    home = TwinHome(tmp_path / "home")
    with home.lock("up"):
        processes.start(home, Service("etcd", ("sleep", "600"), {"PATH": os.defpath}, tmp_path))
    yield home
    processes.stop_all(home, seconds=1)


def test_down_stops_and_frees_where_nothing_can_be_written_any_more(running: TwinHome) -> None:
    """An ordinary user can simulate this part of a full disk: no write of another byte."""

    def nothing_can_be_written() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    env = {**os.environ, "TWIN_HOME": str(running.path)}
    command = [sys.executable, "-m", "twin", "down"]
    done = subprocess.run(
        command, cwd=REPOSITORY, env=env, capture_output=True, text=True, check=False, preexec_fn=nothing_can_be_written
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == "stopped etcd"
    assert processes.marked(running) == {}
    assert not running.path.exists()


def test_down_stops_and_frees_where_its_own_output_has_no_place(running: TwinHome) -> None:
    env = {**os.environ, "TWIN_HOME": str(running.path)}
    with Path("/dev/full").open("w") as full:
        subprocess.run(
            [sys.executable, "-m", "twin", "down"], cwd=REPOSITORY, env=env, stdout=full, stderr=full, check=False
        )
    assert processes.marked(running) == {}
    assert not running.path.exists()
