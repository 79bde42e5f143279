"""The Kubernetes client writes a kubeconfig's keys into files: the next command removes a killed command's files."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from modelctl.cluster import key_files
from tests.paths import ROOT
from twin.cluster import certificates
from twin.host.home import TwinHome

SECONDS = 60


@pytest.fixture
def api() -> Iterator[socket.socket]:
    """Yield an API server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(SECONDS)
        yield listening


@pytest.fixture
def kubeconfig(tmp_path: Path, api: socket.socket) -> Path:
    """Return a kubeconfig with an administrator's key."""
    path = tmp_path / "kubeconfig"
    pki = certificates.ensure(TwinHome(tmp_path / "home"))
    certificates.write_kubeconfig(path, pki, certificates.ADMIN, f"https://127.0.0.1:{api.getsockname()[1]}")
    return path


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    folder = tmp_path / "tmp"
    folder.mkdir()
    return folder


@contextmanager
def parity(kubeconfig: Path, temporary: Path) -> Iterator[subprocess.Popen[str]]:
    """Yield a running `modelctl parity`; kill it at the end if it still runs."""
    environment = {**os.environ, "TMPDIR": str(temporary), "KUBECONFIG": str(kubeconfig)}
    command = [sys.executable, "-m", "modelctl", "parity"]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def run_again(kubeconfig: Path, temporary: Path) -> None:
    """Run another command, whose cluster is down."""
    down = kubeconfig.with_name("down")
    down.write_text(re.sub(r"https://127.0.0.1:\d+", "https://127.0.0.1:9", kubeconfig.read_text()))
    with parity(down, temporary) as process:
        _, said = process.communicate(timeout=SECONDS)
    assert (process.returncode, "cannot be reached" in said) == (2, True), said


def keys_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and "PRIVATE KEY" in path.read_text()]


def test_keys_of_a_killed_command_are_removed_by_the_next_and_those_of_a_running_one_stay(
    kubeconfig: Path, temporary: Path, api: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    with parity(kubeconfig, temporary) as process:
        connection, _ = api.accept()
        with connection:
            (key,) = keys_below(temporary)
            (directory,) = temporary.iterdir()
            assert (directory.name.startswith(key_files.PREFIX), directory.stat().st_mode & 0o777) == (True, 0o700)
            directory_in(temporary, monkeypatch)
            assert keys_below(temporary) == [key]
            process.kill()
            process.wait(timeout=SECONDS)
    assert keys_below(temporary) == [key]

    run_again(kubeconfig, temporary)

    assert keys_below(temporary) == []
    assert not directory.exists()


def test_a_command_that_is_told_to_end_leaves_no_key(kubeconfig: Path, temporary: Path, api: socket.socket) -> None:
    with parity(kubeconfig, temporary) as process:
        connection, _ = api.accept()
        with connection:
            assert len(keys_below(temporary)) == 1
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=SECONDS) == 143
    assert list(temporary.iterdir()) == []


def test_what_only_looks_like_a_directory_of_keys_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody may write to the temporary folder: a link must not lead the command to other files."""
    precious = tmp_path / "precious"
    precious.mkdir()
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    link, file = temporary / f"{key_files.PREFIX}link", temporary / f"{key_files.PREFIX}file"
    link.symlink_to(precious)
    file.touch()

    own = directory_in(temporary, monkeypatch)

    assert set(temporary.iterdir()) == {own, file, link}
    assert precious.is_dir()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root sees another user's directory from the inside")
def test_the_keys_of_another_user_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may remove everything, and if two users share a machine, a container's locks are not visible outside."""
    theirs, ours = tmp_path / f"{key_files.PREFIX}theirs", tmp_path / f"{key_files.PREFIX}ours"
    for folder in (theirs, ours):
        folder.mkdir()
    os.chown(theirs, 1234, 1234)

    own = directory_in(tmp_path, monkeypatch)

    assert set(tmp_path.iterdir()) == {own, theirs}


def directory_in(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory that a command would create in `temporary`."""
    monkeypatch.setattr(key_files.tempfile, "tempdir", str(temporary))
    return key_files.directory.__wrapped__()
