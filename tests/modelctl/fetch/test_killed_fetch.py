"""`modelctl fetch` killed in the middle of a file, and run again."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from moto.s3.models import S3Backend
from rich.filesize import decimal

from modelctl.fetch.partial_file import PART_BYTES
from tests.command import run
from tests.modelctl.conftest import BUCKET
from tests.modelctl.servers import moto_bucket, process, wait_until
from tests.paths import ROOT


def test_a_killed_fetch_is_continued_by_the_next(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = models / "normalize" / "1" / "weights.bin"
    weights.write_bytes(os.urandom(1024) * (3 * PART_BYTES // 1024))
    get_object, arrive, reads = S3Backend.get_object, threading.Event(), threading.Semaphore(2)

    def some_first(self: S3Backend, bucket: str, key: str, *arguments: Any, **named: Any) -> Any:
        if key.endswith("weights.bin") and not reads.acquire(blocking=False):
            assert arrive.wait(120), "nobody let the parts through"
        return get_object(self, bucket, key, *arguments, **named)

    log, to = tmp_path / "fetch.log", tmp_path / "disk"
    with moto_bucket(BUCKET) as url:
        where = ["--bucket", BUCKET, "--endpoint-url", url]
        release = run("modelctl", "release", models, *where).stdout.split()[0]
        command = [sys.executable, "-m", "modelctl", "fetch", release, *where, "--to", str(to)]
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        monkeypatch.setattr(S3Backend, "get_object", some_first)
        journal = to / ".fetching" / release / "parts/normalize/1/weights.bin"
        with process(command, env, log) as killed:
            wait_until(lambda: journal.is_file() and any(journal.read_bytes()), "the first of three parts", 60, log)
            killed.send_signal(signal.SIGKILL)
            assert killed.wait(timeout=10) == -signal.SIGKILL
        arrived = sum(journal.read_bytes())
        assert 1 <= arrived <= 2
        arrive.set()
        assert not (to / "current").exists()

        again = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=True)

    assert f"{release} fetched and verified: {decimal((3 - arrived) * PART_BYTES)} received in " in again.stdout
    assert f", {decimal(arrived * PART_BYTES)} found here; " in again.stdout
    assert (to / "current/normalize/1/weights.bin").read_bytes() == weights.read_bytes()
