"""A busy pod with many models under a CPU quota stays ready: its probe is one process, in the server's quota.

Measured on two cores with 24 models, a quota of half a CPU and three clients per model: a probe took 0.6 s, at most 1.4 s.
With a process per model, every probe took longer than its 5 s, and the pod left the endpoints.
"""

import json
import os
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.charts import rendering
from tests.charts.rendering import Object
from twin.pods.probes import Probe, Verdict
from twin.triton.tritonserver import locate

MODELS = tuple(f"model_{index}" for index in range(24))
ADDRESS = f"127.{100 + os.getpid() // 65536 % 100}.{os.getpid() // 256 % 256}.{os.getpid() % 254 + 1}"
PERIOD_US, QUOTA_US = 100_000, 50_000
ROUNDS = 12
START_SECONDS = 120
CODE = """
import time
import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        end = time.thread_time() + 0.02
        while time.thread_time() < end:
            pass
        return [pb.InferenceResponse([pb.Tensor("OUT", pb.get_input_tensor_by_name(r, "IN").as_numpy())]) for r in requests]
"""
CONFIG = """
backend: "python"
input [ { name: "IN" data_type: TYPE_FP32 dims: [ 1 ] } ]
output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] } ]
instance_group [ { kind: KIND_CPU count: 1 } ]
"""


class Quota:
    """A control group with half a CPU."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, pid: int) -> None:
        (self._folder / "cgroup.procs").write_text(str(pid))

    @property
    def throttled(self) -> int:
        """Return the number of periods in which the quota throttled its processes."""
        values = dict(line.split() for line in (self._folder / "cpu.stat").read_text().splitlines())
        return int(values["nr_throttled"])


@pytest.fixture
def quota() -> Iterator[Quota]:
    for controller, file, text in (
        (Path("/sys/fs/cgroup/cpu"), "cpu.cfs_quota_us", str(QUOTA_US)),
        (Path("/sys/fs/cgroup"), "cpu.max", f"{QUOTA_US} {PERIOD_US}"),
    ):
        folder = controller / f"triton-readiness-{os.getpid()}"
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            if (folder / file).is_file():
                (folder / file).write_text(text)
                yield Quota(folder)
                return
        finally:
            folder.rmdir()
    pytest.skip("no control group with a CPU quota can be created here")


@pytest.fixture
def pod(tmp_path: Path, quota: Quota) -> Iterator[Object]:
    """Return the rendered pod's server, in the quota, with every model loaded."""
    for model in MODELS:
        version = tmp_path / "models" / model / "1"
        version.mkdir(parents=True)
        (version / "model.py").write_text(CODE)
        (version.parent / "config.pbtxt").write_text(CONFIG)
    container = rendering.container({"release": {"models": dict.fromkeys(MODELS, 1)}}, environment="prod")
    server = locate(tmp_path / "backends")
    # Without the shell around it, which creates the admin key.
    words = [container["command"][-1], f"--model-repository={tmp_path / 'models'}", *container["args"][1:]]
    argv, _ = server.localize(words, ADDRESS)
    environment = server.environment({"POD_IP": ADDRESS, "HOME": str(tmp_path)})
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(argv, env=environment, stdout=log, stderr=log, cwd=tmp_path)
    try:
        deadline = time.monotonic() + START_SECONDS
        while not all(answers(f"/v2/models/{model}/ready") for model in MODELS):
            if process.poll() is not None or time.monotonic() > deadline:
                pytest.fail((tmp_path / "log").read_text()[-4000:])
            time.sleep(0.2)
        stubs = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True, check=True)
        for pid in {process.pid, *map(int, stubs.stdout.split())}:
            quota.add(pid)
        yield container
    finally:
        process.terminate()
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def answers(path: str, body: bytes | None = None) -> bool:
    request = urllib.request.Request(f"http://{ADDRESS}:8000{path}", data=body)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
            return bool(answer.status == 200)
    except OSError:
        return False


def test_a_busy_pod_of_many_models_stays_ready(pod: Object, quota: Quota) -> None:
    probe = Probe.parse("readiness", pod["readinessProbe"])
    assert probe is not None
    body = json.dumps({"inputs": [{"name": "IN", "datatype": "FP32", "shape": [1], "data": [1]}]}).encode()
    done = threading.Event()

    def client(model: str) -> None:
        while not done.is_set():
            answers(f"/v2/models/{model}/infer", body)

    clients = [threading.Thread(target=client, args=(model,)) for model in MODELS * 3]
    for thread in clients:
        thread.start()
    before = quota.throttled
    verdict, verdicts = Verdict(probe), []
    try:
        for _ in range(ROUNDS):
            verdicts.append(verdict.record(_run(probe, quota)))
    finally:
        done.set()
        for thread in clients:
            thread.join()
    assert quota.throttled > before, "the pod was not busy"
    assert False not in verdicts


def _run(probe: Probe, quota: Quota) -> bool:
    """Run the rendered command once, in the quota and with the kubelet's timeout."""
    environment = {"POD_IP": ADDRESS, "PATH": os.environ["PATH"]}
    try:
        ended = subprocess.run(
            probe.handler["exec"]["command"],
            env=environment,
            capture_output=True,
            timeout=probe.timeout,
            preexec_fn=lambda: quota.add(os.getpid()),
        )
    except subprocess.TimeoutExpired:
        return False
    return ended.returncode == 0
