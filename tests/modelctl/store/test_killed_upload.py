"""`modelctl release` killed in the middle of an upload, and run again."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.s3.models import S3Backend

from tests.modelctl.conftest import BUCKET
from tests.modelctl.servers import moto_bucket, process, wait_until
from tests.paths import ROOT


@pytest.fixture
def parts_arrive(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Block the bucket from accepting parts of a big object until this event is set, so the upload stays in progress."""
    arrive, upload_part = threading.Event(), S3Backend.upload_part

    def when_let_through(*arguments: Any, **named: Any) -> Any:
        assert arrive.wait(120), "nobody let the parts through"
        return upload_part(*arguments, **named)

    monkeypatch.setattr(S3Backend, "upload_part", when_let_through)
    return arrive


def test_a_killed_release_is_continued_by_the_next(models: Path, tmp_path: Path, parts_arrive: threading.Event) -> None:
    with (models / "normalize" / "1" / "weights.bin").open("wb") as file:
        file.truncate(64 * 1024 * 1024)  # large enough for several parts
    log = tmp_path / "release.log"
    with moto_bucket(BUCKET) as url:
        s3 = boto3.client("s3", region_name="us-west-2", endpoint_url=url)
        where = ["--bucket", BUCKET, "--endpoint-url", url]
        command = [sys.executable, "-m", "modelctl", "release", str(models), *where]
        env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
        with process(command, env, log) as killed:
            wait_until(lambda: "uploaded normalize/1/model.py" in log.read_text(), "the first models", 60, log)
            killed.send_signal(signal.SIGKILL)
            assert killed.wait(timeout=10) == -signal.SIGKILL
        parts_arrive.set()
        keys = [entry["Key"].split("/", 2)[2] for entry in s3.list_objects_v2(Bucket=BUCKET)["Contents"]]
        assert "manifest.json" not in keys
        assert "normalize/1/weights.bin" not in keys

        again = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=True)
        verified = subprocess.run(
            [sys.executable, "-m", "modelctl", "verify", again.stdout.split()[0], *where, "--json"],
            env=env,
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )

    assert again.stdout.splitlines()[0].endswith(" released: 67.1 MB, 4 objects uploaded, 6 found")
    found = [line.split()[1] for line in again.stderr.splitlines() if line.startswith("  found ")]
    assert found == [
        "classify/config.pbtxt",
        "classify/1/golden.json",
        "classify/1/model.py",
        "normalize/config.pbtxt",
        "normalize/1/golden.json",
        "normalize/1/model.py",
    ]
    assert json.loads(verified.stdout)["ok"] is True
