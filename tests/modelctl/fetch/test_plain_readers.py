"""The readers that `modelctl fetch` is compared with read, write and verify the whole file."""

import hashlib
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.loopback_s3 import BUCKET, LoopbackS3
from benchmarks.plain_readers import dropped
from modelctl.fetch.download import CONNECTIONS
from tests.paths import ROOT
from twin.host.processes import wait_until

KEY = "releases/0/big/1/weights.bin"
CONTENT = bytes(range(251)) * 70_001
"""More than two parts of 8 MiB, and not a multiple of the number of connections."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LoopbackS3]:
    """Yield the benchmark's store, with one file."""
    path = tmp_path / "bucket" / KEY
    path.parent.mkdir(parents=True)
    path.write_bytes(CONTENT)
    with LoopbackS3(tmp_path / "bucket", None) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join(10)


def url(store: LoopbackS3) -> str:
    return f"http://127.0.0.1:{store.server_port}/{BUCKET}/{KEY}"


def read(reader: str, store: LoopbackS3, sha256: str, file: Path) -> subprocess.CompletedProcess[str]:
    words = [reader, url(store), str(len(CONTENT)), sha256, str(file)]
    command = [sys.executable, "-m", "benchmarks.plain_readers", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("reader", ["sockets", "curl"])
def test_a_file_is_written_whole_and_its_hash_compared(reader: str, store: LoopbackS3, tmp_path: Path) -> None:
    sha256 = hashlib.sha256(CONTENT).hexdigest()
    ended = read(reader, store, sha256, tmp_path / "file")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert (tmp_path / "file").read_bytes() == CONTENT

    other = read(reader, store, "0" * 64, tmp_path / "other")
    assert other.returncode == 1
    assert other.stderr == f"error: {tmp_path}/other has the sha-256 {sha256}, and {'0' * 64} was asked for\n"


def test_connections_that_drop_what_they_read_read_a_share_each(store: LoopbackS3) -> None:
    assert dropped(url(store), len(CONTENT)) > 0
    read_of_it = len(CONTENT) // CONNECTIONS * CONNECTIONS
    wait_until(lambda: store.sent == read_of_it, f"{read_of_it} bytes sent", 10)


def test_a_share_that_ends_early_is_no_rate(store: LoopbackS3) -> None:
    with pytest.raises(SystemExit, match=r"^error: http.* ended .* bytes before the share from .* on was over$"):
        dropped(url(store), 2 * len(CONTENT))
