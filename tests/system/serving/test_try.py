"""`modelctl try`: from an ONNX file to a real server's answer and a load, without remaining files."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.packaged import sample
from tests import onnx_models
from tests.paths import ROOT
from twin.host.processes import wait_until

LOAD = re.compile(r"load of \d+ requests/s for 5 s: p50 (\d+\.\d) ms, p95 (\d+\.\d) ms; (\d+) answered(, \d+ \w+)*\n")
LAST = "The server runs until Ctrl-C, which also deletes its files.\n"


@contextlib.contextmanager
def trying(temporary: Path, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Run the command outside the checkout, with a separate temporary directory."""
    temporary.mkdir()
    command = [sys.executable, "-m", "modelctl", "try", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(temporary)}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, cwd=temporary.parent, env=environment, stdout=pipe, stderr=pipe, text=True, bufsize=1
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def until_it_waits(process: subprocess.Popen[str]) -> list[str]:
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line == LAST:
            return lines
    assert process.stderr is not None
    raise AssertionError("".join(lines) + process.stderr.read())


def curl(lines: list[str]) -> list[str]:
    (line,) = (line for line in lines if line.startswith("curl "))
    return shlex.split(line)


def answer(command: list[str]) -> list[float]:
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    return json.loads(said)["outputs"][0]["data"]


def is_alive(address: str) -> bool:
    return subprocess.run(["curl", "-s", f"{address}/v2/health/live"], check=False, timeout=60).returncode == 0


def server_of(command: list[str]) -> str:
    return command[2].partition("/")[0]


def test_the_sample_of_make_models_is_answered_and_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    sample.write(tmp_path / "samples")
    with trying(tmp_path / "tmp", "samples/net.onnx") as process:
        lines = until_it_waits(process)
        # Exclusive or of 00, 01, 10 and 11.
        assert lines[2:4] == ["  OUT  FP32 [4, 1]  0, 1, 1, 0\n", "  as expected (tolerance 1e-05)\n"]
        load = LOAD.fullmatch(lines[4])
        assert load is not None, lines
        assert 0 < float(load[1]) <= float(load[2])
        assert int(load[3]) >= 1
        assert answer(curl(lines)) == [0, 1, 1, 0]
        assert lines[6:11] == [
            "in a stack file:\n",
            "  triton-eks:models:\n",
            "    serving:\n",
            "      net: {device: gpu, sloP95Ms: 100, expectedRate: 10, peakRate: 40}  # yours\n",
            "Keep it: python3 -m modelctl import samples/net.onnx --into my-models\n",
        ]

        process.send_signal(signal.SIGINT)

        assert process.wait(60) == 0
        assert list((tmp_path / "tmp").iterdir()) == []
        assert not is_alive(server_of(curl(lines)))
        assert not list(Path("/dev/shm").glob(f"twin-triton-{process.pid}-*"))


def test_a_request_that_is_long_is_sent_again_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(onnx_models.same("FLOAT", ["n", 500]).SerializeToString())
    with trying(tmp_path / "tmp", "net.onnx", "--name", "wide") as process:
        lines = until_it_waits(process)
        command = curl(lines)
        assert command[:2] == ["curl", "-s"]
        assert command[2].endswith("/v2/models/wide/infer")
        assert command[4].startswith(f"@{tmp_path}/tmp/")
        sent = json.loads(Path(command[4][1:]).read_text())["inputs"][0]
        assert sent["shape"] == [1, 500]
        assert answer(command) == sent["data"]
        assert re.search(r"OUT  FP32 \[1, 500\]  (0\.\d+, ){8}… \(500 values\)\n", lines[2])


def test_a_command_that_is_killed_takes_the_server_along(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(onnx_models.same("FLOAT", ["n", 2]).SerializeToString())
    with trying(tmp_path / "tmp", "net.onnx") as process:
        address = server_of(curl(until_it_waits(process)))
        assert is_alive(address)
        process.kill()
        wait_until(lambda: not is_alive(address), "the server to exit", 60)


@pytest.mark.parametrize(
    ("request_", "message", "code"),
    [
        (
            {"inputs": {"IN": ("FP32", [1, 2], [3, 4])}, "outputs": {"OUT": ("FP32", [1, 2], [3, 5])}},
            "error: net: the answer is wrong: OUT[1] is 4.0, expected 5 (tolerance 1e-05)\n",
            1,
        ),
        ({"inputs": {"X": ("FP32", [1, 2], [3, 4])}}, "error: request.json: net has no input X; name its inputs: IN\n", 2),
        (
            {"inputs": {"IN": ("FP32", [1, 3], [3, 4, 5])}},
            "error: net: [request id: <id_unknown>] unexpected shape for input 'IN' for model 'net'. "
            "Expected [-1,2], got [1,3]. ",
            1,
        ),
    ],
    ids=["another answer", "another input", "another shape"],
)
def test_a_request_that_does_not_fit_ends_it_with_the_reason(
    tmp_path: Path, request_: dict[str, dict[str, tuple[str, list[int], list[int]]]], message: str, code: int
) -> None:
    (tmp_path / "net.onnx").write_bytes(onnx_models.same("FLOAT", ["n", 2]).SerializeToString())
    document = {
        part: {name: dict(zip(("datatype", "shape", "data"), tensor, strict=True)) for name, tensor in tensors.items()}
        for part, tensors in request_.items()
    }
    (tmp_path / "request.json").write_text(json.dumps(document))
    with trying(tmp_path / "tmp", "net.onnx", "--request", "request.json") as process:
        _, errors = process.communicate(timeout=120)
    assert (errors[: len(message)], process.returncode) == (message, code), errors
    assert list((tmp_path / "tmp").iterdir()) == []
