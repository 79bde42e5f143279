"""On SIGTERM, tests tear down the resources of their fixtures."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import ROOT
from twin.host import processes

SECONDS = 60
"""Most of it is Python's start on a busy machine."""
TESTS = """
import pathlib, time, pytest

HERE = pathlib.Path(__file__).parent

@pytest.fixture(scope="session")
def twin():
    (HERE / "up").touch()
    yield
    (HERE / "up").unlink()

def test_long(twin):
    time.sleep(600)
"""


@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["alone", "in a worker"])
def test_what_is_up_is_taken_down(tmp_path: Path, workers: tuple[str, ...]) -> None:
    file, up = tmp_path / "test_long.py", tmp_path / "up"
    file.write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", "--rootdir", str(tmp_path), *workers, str(file)]
    with (tmp_path / "said").open("w") as said:
        run = subprocess.Popen(command, cwd=ROOT, stdout=said, stderr=said)
    try:
        processes.wait_until(up.exists, "the fixture to be up", SECONDS)
        run.send_signal(signal.SIGTERM)
        run.wait(SECONDS)
        processes.wait_until(lambda: not up.exists(), "the fixture to be down", SECONDS)
    finally:
        run.kill()
        run.wait()
    assert run.returncode == pytest.ExitCode.INTERRUPTED, (tmp_path / "said").read_text()
