"""Record a real server's metrics: `python -m tests.spec.prometheus.recorded.record`, from the root of the checkout.

It runs the sample models, one of them with a response cache, with latency summaries. A few requests succeed, are answered by
the cache, fail in the model, wait too long or find the queue full. It writes server-<version>.prom next to this file.
"""

import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import typer

from tests.modelctl.servers import loopback_address, process, wait_until
from twin.triton.tritonserver import locate

HERE = Path(__file__).parent
MODELS = HERE.parents[3] / "models"

_CACHED = "normalize"
_CONFIG = """
backend: "python"
max_batch_size: 1
input [ { name: "SECONDS" data_type: TYPE_FP32 dims: [ 1 ] } ]
output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] } ]
instance_group [ { kind: KIND_CPU count: 1 } ]
dynamic_batching {
  default_queue_policy { timeout_action: REJECT default_timeout_microseconds: 200000 max_queue_size: 2 }
}
"""
_MODEL = """
import time
import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        seconds = [pb.get_input_tensor_by_name(request, "SECONDS").as_numpy() for request in requests]
        if seconds[0].item() < 0:
            raise ValueError("a negative time")
        time.sleep(seconds[0].item())
        return [pb.InferenceResponse([pb.Tensor("OUT", value)]) for value in seconds]
"""


def main() -> None:
    """Record a real server's metrics next to this file."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        version, metrics = _record(folder, _repository(folder / "models"))
    (HERE / f"server-{version}.prom").write_text(metrics)


def _repository(target: Path) -> Path:
    shutil.copytree(MODELS, target, ignore=shutil.ignore_patterns("__pycache__", "release.yaml", "2"))
    cached = target / _CACHED / "config.pbtxt"
    cached.write_text(cached.read_text() + "\nresponse_cache { enable: true }\n")
    (target / "sleep" / "1").mkdir(parents=True)
    (target / "sleep" / "config.pbtxt").write_text(_CONFIG)
    (target / "sleep" / "1" / "model.py").write_text(_MODEL)
    return target


def _record(folder: Path, repository: Path) -> tuple[str, str]:
    server, address = locate(folder), loopback_address()
    arguments = [
        f"--model-repository={repository}",
        "--cache-config=local,size=1048576",
        "--metrics-config=summary_latencies=true",
    ]
    argv, _ = server.localize(arguments, address)
    log = folder / "log"
    with process(argv, server.environment({}), log), httpx.Client(timeout=30) as client:
        http = f"http://{address}:8000"

        def ready() -> bool:
            try:
                return client.get(f"{http}/v2/health/ready").is_success
            except httpx.TransportError:
                return False

        wait_until(ready, "the server to be ready", 60, log)
        _requests(client, http)
        return client.get(f"{http}/v2").json()["version"], client.get(f"http://{address}:8002/metrics").text


def _requests(client: httpx.Client, http: str) -> None:
    def infer(model: str, tensor: str, values: list[float]) -> int:
        inputs = [{"name": tensor, "datatype": "FP32", "shape": [1, len(values)], "data": values}]
        return client.post(f"{http}/v2/models/{model}/infer", json={"inputs": inputs}).status_code

    answers = [infer("pipeline", "FEATURES", [1, 2, 3, number]) for number in range(5)]
    answers += [infer(_CACHED, "FEATURES", [9, 9, 9, 9]) for _ in range(10)]
    assert answers == [200] * 15, answers
    assert infer("sleep", "SECONDS", [-1]) == 500
    # One is executed, two exceed their time limit, and the rest find a full queue.
    with ThreadPoolExecutor(6) as pool:
        assert sorted(pool.map(lambda _: infer("sleep", "SECONDS", [1]), range(6))) == [200, *[503] * 5]


if __name__ == "__main__":
    typer.run(main)
