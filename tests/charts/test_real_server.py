"""Starts the real tritonserver with the rendered pod's arguments, and checks that the probes report the true state.

The test replaces only what needs a container: the repository (a folder here) and the volumes. `TritonServer.localize`
also replaces the addresses and the flags that this older server lacks.
"""

import json
import os
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.charts import rendering
from tests.charts.rendering import Object
from twin.triton.tritonserver import TritonServer

START_DEADLINE_SECONDS = 90
MODEL = """
import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        tensors = [pb.get_input_tensor_by_name(request, "IN").as_numpy() for request in requests]
        return [pb.InferenceResponse([pb.Tensor("OUT", tensor)]) for tensor in tensors]
"""
CONFIG = """
backend: "python"
max_batch_size: 1
input [ { name: "IN" data_type: TYPE_FP32 dims: [ 1 ] } ]
output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] } ]
instance_group [ {
  kind: KIND_CPU count: 1 rate_limiter { resources [ { name: "slots" global: true count: 1 } ] }
} ]
response_cache { enable: true }
"""


@dataclass(frozen=True)
class Pod:
    """A rendered pod that runs as a process."""

    spec: Object
    process: subprocess.Popen[bytes]
    address: str
    log: Path

    def status(self, path: str, port: str, headers: dict[str, str] | None = None, method: str = "GET") -> int:
        """Return the HTTP status of a path on a named port, 0 if nothing listens there."""
        request = urllib.request.Request(self._url(path, port), headers=headers or {}, method=method)  # noqa: S310
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    def text(self, path: str, port: str) -> str:
        """Return the body of a path on a named port. Fails unless the request succeeds."""
        with urllib.request.urlopen(self._url(path, port), timeout=10) as answer:  # noqa: S310
            return answer.read().decode()

    def post(self, path: str, body: Object) -> Object:
        """Return the JSON response to a JSON request over HTTP."""
        data = json.dumps(body).encode()
        request = urllib.request.Request(self._url(path, "http"), data=data, method="POST")  # noqa: S310
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
            return json.load(answer)

    def _url(self, path: str, port: str) -> str:
        (container,) = self.spec["containers"]
        ports = {p["name"]: p["containerPort"] for p in container["ports"]}
        return f"http://{self.address}:{ports[port]}{path}"

    @property
    def admin_key(self) -> str:
        return (self.log.parent / "admin-key").read_text()

    def probe(self, probe: Object) -> bool:
        """Run a rendered probe once, and evaluate it as the kubelet does."""
        if "httpGet" in probe:
            return 200 <= self.status(probe["httpGet"]["path"], probe["httpGet"]["port"]) < 400
        environment = {"POD_IP": self.address, "PATH": os.environ["PATH"]}
        return subprocess.run(probe["exec"]["command"], env=environment, capture_output=True, timeout=30).returncode == 0


def readiness(models: dict[str, int]) -> Object:
    return rendering.container({"release": {"models": models}}, environment="local")["readinessProbe"]


@pytest.fixture(scope="module")
def pod(real_server: TritonServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pod]:
    folder = tmp_path_factory.mktemp("pod")
    for model in ("first", "second"):
        version = folder / "repository" / model / "1"
        version.mkdir(parents=True)
        (version / "model.py").write_text(MODEL)
        (version.parent / "config.pbtxt").write_text(CONFIG)
    for volume in ("models", "tmp"):
        (folder / volume).mkdir()
    server = {"responseCacheBytes": 8 * 1024**2, "rateLimiter": {"resources": {"slots": 1}}}
    values = {"release": {"models": {"first": 1, "second": 1}, "configName": "local"}, "server": server}
    spec = rendering.pod(values, environment="local")
    (container,) = spec["containers"]
    # A separate address, as a pod has, built from this process's id.
    address = f"127.{100 + os.getpid() // 65536 % 100}.{os.getpid() // 256 % 256}.{os.getpid() % 254 + 1}"
    arguments = [f"--model-repository={folder / 'repository'}", *container["args"][1:]]
    *shell, server_command = container["command"]
    argv, dropped = real_server.localize([server_command, *arguments], address)
    argv = [*(word.replace("/run/triton", str(folder)) for word in shell), *argv]
    assert dropped == ["--http-max-input-size"]
    environment = {"POD_IP": address, "HOME": str(folder / "tmp")}
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            argv, env=real_server.environment(environment), stdout=output, stderr=subprocess.STDOUT, cwd=folder
        )
    found = Pod(spec, process, address, log)
    try:
        _wait_until_started(found, container)
        yield found
    finally:
        process.terminate()
        try:
            process.wait(timeout=spec["terminationGracePeriodSeconds"])
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_started(pod: Pod, container: Object) -> None:
    deadline = time.monotonic() + START_DEADLINE_SECONDS
    # The metrics have their own listener, which may start later.
    while not (pod.probe(container["startupProbe"]) and pod.status("/metrics", "metrics") == 200):
        if pod.process.poll() is not None or time.monotonic() > deadline:
            pytest.fail(f"the startup probe never passed; the server's log:\n{pod.log.read_text()[-4000:]}")
        time.sleep(0.1)


def test_a_started_pod_is_ready_and_alive(pod: Pod) -> None:
    (container,) = pod.spec["containers"]
    assert pod.probe(container["readinessProbe"])
    assert pod.probe(container["livenessProbe"])
    assert pod.probe(readiness({"first": 1}))


@pytest.mark.parametrize("models", [{"first": 2}, {"first": 1, "second": 2}, {"absent": 1}, {"absent": 1, "first": 1}])
def test_a_pod_that_lacks_a_model_or_its_version_is_not_ready(pod: Pod, models: dict[str, int]) -> None:
    assert not pod.probe(readiness(models))


def test_metrics_have_a_port_of_their_own(pod: Pod) -> None:
    assert pod.status("/metrics", "metrics") == 200
    assert pod.status("/metrics", "http") != 200


@pytest.mark.parametrize("path", ["/v2/trace/setting", "/v2/logging", "/v2/systemsharedmemory/status"])
def test_the_control_apis_ask_for_the_key(pod: Pod, path: str) -> None:
    assert pod.status(path, "http") == 403
    assert pod.status(path, "http", {"x-admin-key": "guess"}) == 403
    assert pod.status(path, "http", {"x-admin-key": pod.admin_key}) == 200


def test_models_cannot_be_loaded_or_unloaded_even_with_the_key(pod: Pod) -> None:
    key = {"x-admin-key": pod.admin_key}
    assert pod.status("/v2/repository/models/first/unload", "http", key, "POST") == 503
    assert pod.probe(readiness({"first": 1}))


def test_a_response_comes_from_the_cache_the_second_time(pod: Pod) -> None:
    request = {"inputs": [{"name": "IN", "datatype": "FP32", "shape": [1, 1], "data": [1.5]}]}
    for _ in range(2):
        answer = pod.post("/v2/models/first/infer", request)
        assert answer["outputs"][0]["data"] == [1.5]
    hits = [line for line in pod.text("/metrics", "metrics").splitlines() if line.startswith("nv_cache_num_hits_per_model")]
    assert sorted(hits) == [
        'nv_cache_num_hits_per_model{model="first",version="1"} 1',
        'nv_cache_num_hits_per_model{model="second",version="1"} 0',
    ]


def test_the_rate_limiter_is_on_and_the_named_config_chosen(pod: Pod) -> None:
    """The server lists its options in the log."""
    options = dict(re.findall(r"^\| (\w+) +\| (\S+) +\|$", pod.log.read_text(), re.MULTILINE))
    assert options["rate_limit"] == "EXEC_COUNT"
    assert options["cache_enabled"] == "1"
    assert options["model_config_name"] == "local"


def test_the_server_stops_cleanly_within_the_grace_period(pod: Pod) -> None:
    pod.process.send_signal(signal.SIGTERM)
    assert pod.process.wait(timeout=pod.spec["terminationGracePeriodSeconds"]) == 0
