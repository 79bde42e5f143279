"""A killed Triton server's leftovers and their owners; processes with their names play the servers."""

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from twin.cluster.certificates import Pki
from twin.host.home import TwinHome
from twin.host.processes import wait_until
from twin.services import leftovers


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the fake /tmp, on a machine that has only this test's servers."""
    path = tmp_path / "tmp"
    path.mkdir()
    monkeypatch.setattr(leftovers, "_ENVIRONMENTS", path)
    of_the_machine = leftovers._processes

    def of_this_test() -> list[leftovers._Process]:
        listed = list(of_the_machine())
        own = {os.getpid(), *(p.pid for p in listed if p.parent == os.getpid())}
        return [p for p in listed if p.parent in own]

    monkeypatch.setattr(leftovers, "_processes", of_this_test)
    return path


def environment(folder: Path, name: str, made: float) -> Path:
    directory = folder / f"python_env_{name}"
    directory.mkdir()
    os.utime(directory, (made, made))
    return directory


def server(tmp_path: Path, command: str) -> subprocess.Popen[bytes]:
    """Start a process named tritonserver that runs a shell command."""
    shell = shutil.which("bash")
    assert shell
    program = tmp_path / "tritonserver"
    if not program.exists():
        shutil.copy(shell, program)
    return subprocess.Popen([str(program), "-c", command], start_new_session=True)


def test_an_environment_that_no_living_server_can_own_is_abandoned(tmp_path: Path, temporary: Path) -> None:
    process = server(tmp_path, "sleep 60; :")
    try:
        wait_until(lambda: _is_listed(process.pid), "the server to be listed", 60)
        before = environment(temporary, "before", 1000.0)
        during = environment(temporary, "during", time.time())
        assert leftovers.abandoned_environments(since=0) == [before]
    finally:
        os.killpg(process.pid, 9)
        process.wait()
    assert leftovers.abandoned_environments(since=0) == [before, during]


def _is_listed(pid: int) -> bool:
    return any(p.pid == pid and p.name == leftovers._SERVER for p in leftovers._processes())


def test_a_server_with_a_stub_made_its_environment_before_it(tmp_path: Path, temporary: Path) -> None:
    sleep = shutil.which("sleep")
    assert sleep
    stub = tmp_path / "triton_python_backend_stub"
    shutil.copy(sleep, stub)
    process = server(tmp_path, f"{stub} 60; :")
    try:
        started = wait_until(
            lambda: [p.started for p in leftovers._processes() if (p.parent, p.name) == (process.pid, leftovers._STUB)],
            "the stub",
            20,
        )
        own = environment(temporary, "own000", started[0])
        later = environment(temporary, "later0", time.time() + 30)
        found = leftovers.abandoned_environments(since=0)
        assert own not in found
        assert later in found
    finally:
        os.killpg(process.pid, 9)
        process.wait()


def test_what_is_older_than_the_twin_or_not_empty_stays(tmp_path: Path, temporary: Path) -> None:
    home = TwinHome(tmp_path / "home")
    Pki(home.pki).ca.parent.mkdir(parents=True)
    Pki(home.pki).ca.write_text("")
    older = environment(temporary, "older0", time.time() - 600)
    full = environment(temporary, "full00", time.time() + 60)
    (full / "0").mkdir()
    os.utime(full, (time.time() + 60,) * 2)
    ours = environment(temporary, "ours00", time.time() + 60)

    leftovers.remove(home)

    assert older.exists() and full.exists()
    assert not ours.exists()


def test_shared_memory_of_this_twin_goes_and_of_another_one_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "SHARED_MEMORY", str(tmp_path))
    one, other = TwinHome(tmp_path / "one"), TwinHome(tmp_path / "other")
    files = [tmp_path / f"{home.shared_memory_prefix}uid-region" for home in (one, other)]
    for file in files:
        file.touch()
    leftovers.remove(one)
    assert [file.exists() for file in files] == [False, True]
