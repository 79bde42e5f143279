"""`python3 -m twin triton`: a real server for one command."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from twin.host.home import REPOSITORY
from twin.host.processes import wait_until
from twin.triton import standalone
from twin.triton.standalone import StandaloneFailed

LINE = re.compile(rb"gRPC (127\.[\d.]+):8001, HTTP (127\.[\d.]+:8000), metrics 127\.[\d.]+:8002\n")


@contextlib.contextmanager
def running(log: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "twin", "triton", str(REPOSITORY / "models")]
    with log.open("wb") as output:
        env = {**os.environ, "TMPDIR": str(log.parent)}
        process = subprocess.Popen(command, cwd=REPOSITORY, env=env, stdout=subprocess.PIPE, stderr=output)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()


def test_it_says_where_it_listens_loads_what_it_is_asked_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    with running(tmp_path / "log") as process:
        assert process.stdout is not None
        found = LINE.fullmatch(process.stdout.readline())
        assert found, (tmp_path / "log").read_text()
        with httpx.Client(base_url=f"http://{found[2].decode()}", timeout=30) as server:
            index = server.post("/v2/repository/index").json()
            assert {m["name"] for m in index if m.get("state") == "READY"} == set()
            assert server.post("/v2/repository/models/classify/load").status_code == 200
            assert list(Path("/dev/shm").glob(f"twin-triton-{process.pid}-*"))

        process.send_signal(signal.SIGINT)

        assert process.wait(timeout=60) == 0
        assert [path.name for path in tmp_path.iterdir()] == ["log"]
        assert not list(Path("/dev/shm").glob(f"twin-triton-{process.pid}-*"))
        with pytest.raises(httpx.TransportError):
            httpx.get(f"http://{found[2].decode()}/v2/health/live")


def test_a_command_that_is_killed_takes_its_server_along(tmp_path: Path) -> None:
    with running(tmp_path / "log") as process:
        assert process.stdout is not None
        found = LINE.fullmatch(process.stdout.readline())
        assert found, (tmp_path / "log").read_text()
        process.kill()
        url = f"http://{found[2].decode()}/v2/health/live"
        wait_until(lambda: not _answers(url), "the server to be gone", 60)


def _answers(url: str) -> bool:
    try:
        return httpx.get(url).status_code == 200
    except httpx.TransportError:
        return False


def test_a_path_that_is_no_directory_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(StandaloneFailed) as failure:
        standalone.serve(tmp_path / "nothing", print)
    assert str(failure.value) == (
        f"{tmp_path / 'nothing'} is no directory: name a model repository, e.g. `python3 -m twin triton models`"
    )
