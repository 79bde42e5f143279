"""docs/your-model.md: runs its first commands unchanged, from an ONNX file to a real server's answer."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

from modelctl.repository.load import validate
from tests import onnx_models
from tests.paths import ROOT

PAGE = (ROOT / "docs" / "your-model.md").read_text()
READY = re.compile(r"gRPC (127\.[\d.]+):8001, HTTP ")
SECONDS = 120


def commands() -> list[list[str]]:
    """Return the commands of the page, in order, without comments."""
    block = re.search(r"^```sh your-model\n(.*?)^```$", PAGE, re.M | re.S)
    assert block is not None
    return [shlex.split(line, comments=True) for line in block[1].splitlines()]


def golden() -> str:
    block = re.search(r"^```json\n(.*?)^```$", PAGE, re.M | re.S)
    assert block is not None
    return block[1]


def run(command: list[str], folder: Path, address: str = "") -> str:
    words = [sys.executable if word == "python3" else word.replace("ADDRESS", address) for word in command]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "no_proxy": "*"}
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_page_leads_from_a_file_to_an_answer(tmp_path: Path) -> None:
    bring_in, serve, load, ask = commands()
    (tmp_path / "net.onnx").write_bytes(onnx_models.same("FLOAT", ["n", 2]).SerializeToString())

    assert run(bring_in, tmp_path).startswith("my-models/net: 1 input, 1 output, batches of up to 8\n")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    command = [sys.executable, *serve[1:]]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        try:
            assert server.stdout is not None
            found = READY.match(server.stdout.readline())
            assert found is not None
            run(load, tmp_path, found[1])
            answer = json.loads(run(ask, tmp_path, found[1]))
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(SECONDS)

    expected = json.loads(golden())["outputs"]["OUT"]
    assert [(output["name"], output["shape"], output["data"]) for output in answer["outputs"]] == [
        ("OUT", expected["shape"], expected["data"])
    ]
    (tmp_path / "my-models" / "net" / "1" / "golden.json").write_text(golden())
    assert validate(tmp_path / "my-models") == []
