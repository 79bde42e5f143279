"""Measure the GPU use of a stack's ONNX models, and compare their answers with their packages'.

    python benchmarks/gpu.py

The program starts a real Triton (`python -m twin triton`) and loads the models with the configs of a release for the stack.
It needs a GPU without other users, the models of `make models`, and onnxruntime-gpu in place of onnxruntime, because the
twin's substitute for NVIDIA's backend uses it. docs/facts/gpu-memory.md has the results.

Fixed before the first run:

* memory is the GPU memory that `nvidia-smi` reports as used, minus the memory used before the server started. A model is
  loaded by itself, answers its request of LARGEST ROUNDS times, and is unloaded. `context_mib` is the same for a model with
  one addition: the CUDA context of its process, and onnxruntime's memory without weights. It is subtracted from each model,
  because NVIDIA's backend runs in the server's process and has one context for all;
* answers are compared with golden.json, those to LARGEST with the same model on the CPU, relative to the largest number;
* latencies are of one client that sends its next request after each answer, without ROUNDS.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from statistics import median, quantiles
from typing import Annotated

import httpx
import numpy as np
import onnxruntime
import typer
from google.protobuf import json_format
from onnx import TensorProto, helper, save_model
from tritonclient.grpc import InferenceServerClient
from tritonclient.grpc.model_config_pb2 import ModelConfig

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))  # run as a program, from the checkout

from benchmarks.measurement import RESULTS, Conditions, Record, conditions, write  # noqa: E402
from benchmarks.standalone_server import Addresses, triton  # noqa: E402
from examples.tensors import to_inputs  # noqa: E402
from modelctl.release.progress import Silent  # noqa: E402
from modelctl.release.publish import prepare  # noqa: E402
from modelctl.repository import textproto  # noqa: E402
from modelctl.repository.golden import FILE, Golden  # noqa: E402
from modelctl.store.bucket import PART_BYTES  # noqa: E402
from modelctl.tune import evidence as record  # noqa: E402
from spec.files import rewrite  # noqa: E402

LARGEST: Mapping[str, tuple[str, tuple[int, ...]]] = {
    "filetype": ("bytes", (16, 2048)),
    "text_detection": ("x", (1, 3, 2016, 2016)),
    "text_direction": ("x", (8, 3, 48, 192)),
    "text_recognition": ("x", (8, 3, 48, 2000)),
}
"""The name and shape of each model's largest input: docs/serving.md#the-models-of-the-stacks."""
ROUNDS = 5
REQUESTS = 100
_ADDITION = "addition"
_CALL_SECONDS = 120.0


class Latency(Record):
    """Latencies of `requests` sequential requests, in ms."""

    requests: int
    p50_ms: float
    p95_ms: float


class OnGpu(Record):
    """A model on the GPU, without the context: `loaded_mib` after its warm-up, `largest_mib` after its largest requests.

    `left_mib`: memory still used after the unload, without the server's. `difference`: the largest deviation of an output
    from the CPU's, relative to its largest number.
    """

    model: str
    largest: tuple[int, ...]
    loaded_mib: int
    largest_mib: int
    left_mib: int
    difference: float
    latency: Latency


class Together(Record):
    """All models of the stack in one server, as in a pod. `golden`: None for a correct answer."""

    used_mib: int
    golden: dict[str, str | None]
    latency: dict[str, Latency]


class Report(Record):
    """The whole run. `server_mib`: of a server without models; `context_mib`: of a process, before a model."""

    kind: str = "gpu"
    started: datetime
    finished: datetime
    stack: str
    gpu: str
    driver: str
    conditions: Conditions
    machine: record.Machine
    server: str
    onnxruntime: str
    server_mib: int
    context_mib: int
    models: list[OnGpu]
    together: Together


def main(
    models: Annotated[Path, typer.Option(help="Model repository, as `make models` writes it.")] = REPOSITORY / ".models",
    stack: Annotated[str, typer.Option(help="Stack whose configs the models have.")] = "dev",
    results: Annotated[Path, typer.Option(help="Directory for the results.")] = RESULTS,
    scrape: Annotated[Path | None, typer.Option(help="File for what the server exports with all models loaded.")] = None,
    busy: Annotated[bool, typer.Option("--busy", help="Measure on a busy machine too; the record says so.")] = False,
) -> None:
    """Measure memory, answers and latency of a stack's ONNX models on this machine's GPU."""
    started, made = datetime.now(UTC), conditions(allow_busy=busy)
    before = _used()
    with tempfile.TemporaryDirectory() as folder:
        repository = Path(folder, "models")
        configs = _repository(models, stack, repository)
        with triton(repository, {}, log=2) as server, InferenceServerClient(server.grpc) as client:
            version = client.get_server_metadata().version
            alone = _used() - before
            context = _context(client, configs[_ADDITION], before + alone)
            on_gpu = [_measured(client, name, configs[name], repository, before + alone, context) for name in LARGEST]
            together = _together(client, server, configs, repository, before)
            if scrape is not None:
                rewrite(scrape, httpx.get(f"http://{server.metrics}/metrics", trust_env=False).content)
    name, driver = _smi("name,driver_version").split(", ")
    report = Report(
        started=started,
        finished=datetime.now(UTC),
        stack=stack,
        gpu=name,
        driver=driver,
        conditions=made,
        machine=record.machine(made.load_before, server_on_loopback=True),
        server=version,
        onnxruntime=onnxruntime.__version__,
        server_mib=alone,
        context_mib=context,
        models=on_gpu,
        together=together,
    )
    typer.echo(f"written: {write(report, 'gpu', started, results)}")


def _smi(field: str) -> str:
    command = ["nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader,nounits", "--id=0"]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.strip()


def _used() -> int:
    """Return the used GPU memory in MiB after two equal readings, because a terminated process frees its memory with a
    delay.
    """
    last, now = -1, int(_smi("memory.used"))
    deadline = time.monotonic() + 10
    while now != last and time.monotonic() < deadline:
        time.sleep(0.3)
        last, now = now, int(_smi("memory.used"))
    return now


def _repository(models: Path, stack: str, target: Path) -> dict[str, ModelConfig]:
    """Fill `target` with a release of `models` and a model with one addition; return the stack's configs."""
    planned = prepare(models, PART_BYTES, Silent(), REPOSITORY / "stacks").objects
    configs = {}
    for key, planned_object in planned.items():
        source = planned_object.source
        (target / key).parent.mkdir(parents=True, exist_ok=True)
        (target / key).write_bytes(source if isinstance(source, bytes) else source.read_bytes())
        if key.endswith(f"/configs/{stack}.pbtxt"):
            name = key.partition("/")[0]
            configs[name] = _config(target / key, name)
    pair = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 2]) for name in ("A", "SUM")]
    graph = helper.make_graph([helper.make_node("Add", ["A", "A"], ["SUM"])], _ADDITION, pair[:1], pair[1:])
    addition = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    addition.ir_version = 8
    (target / _ADDITION / "1").mkdir(parents=True)
    save_model(addition, target / _ADDITION / "1" / "model.onnx")
    (target / _ADDITION / "config.pbtxt").write_text(
        'backend: "onnxruntime" max_batch_size: 1 instance_group [ { kind: KIND_GPU count: 1 } ]\n'
        'input [ { name: "A" data_type: TYPE_FP32 dims: [ 2 ] } ]\n'
        'output [ { name: "SUM" data_type: TYPE_FP32 dims: [ 2 ] } ]\n'
    )
    configs[_ADDITION] = _config(target / _ADDITION / "config.pbtxt", _ADDITION)
    return configs


def _config(file: Path, name: str) -> ModelConfig:
    config, problems = textproto.parse(file, file.read_text(encoding="utf-8"))
    if config is None:
        raise SystemExit("\n".join(map(str, problems)))
    config.name = name
    config.ClearField("model_metrics")  # server 2.51 does not know this latency histogram
    return config


def _load(client: InferenceServerClient, config: ModelConfig) -> None:
    text = json_format.MessageToJson(config, preserving_proto_field_name=True)
    client.load_model(config.name, config=text, client_timeout=_CALL_SECONDS)


def _context(client: InferenceServerClient, addition: ModelConfig, before: int) -> int:
    """Return the MiB of a process with a model of one addition."""
    _load(client, addition)
    client.infer(_ADDITION, to_inputs({"A": np.ones((1, 2), np.float32)}), client_timeout=_CALL_SECONDS)
    used = _used() - before
    client.unload_model(_ADDITION)
    _until_used(before)
    return used


def _measured(
    client: InferenceServerClient, name: str, config: ModelConfig, repository: Path, before: int, context: int
) -> OnGpu:
    """Measure a model by itself. `before`: MiB of a server without models; `context`: MiB for the model's process."""
    tensor, shape = LARGEST[name]
    source = np.random.default_rng(1)
    given = source.integers(0, 256, shape, np.int32) if name == "filetype" else source.random(shape, np.float32)
    _load(client, config)
    loaded = _used() - before - context
    inputs = to_inputs({tensor: given})
    for _ in range(ROUNDS):
        answer = client.infer(name, inputs, client_timeout=_CALL_SECONDS)
    largest = _used() - before - context
    session = onnxruntime.InferenceSession(repository / name / "1" / "model.onnx", providers=["CPUExecutionProvider"])
    output = session.get_outputs()[0].name
    expected = session.run([output], {tensor: given})[0]
    difference = float(np.abs(answer.as_numpy(output) - expected).max() / np.abs(expected).max())
    latency = _latency(lambda: client.infer(name, inputs, client_timeout=_CALL_SECONDS))
    client.unload_model(name)
    left = _until_used(before) - before
    typer.echo(f"{name}: {loaded} MiB loaded, {largest} MiB after {shape}, differs by {difference:.1e}, {latency}")
    return OnGpu(
        model=name,
        largest=shape,
        loaded_mib=loaded,
        largest_mib=largest,
        left_mib=left,
        difference=difference,
        latency=latency,
    )


def _together(
    client: InferenceServerClient, server: Addresses, configs: Mapping[str, ModelConfig], repository: Path, before: int
) -> Together:
    """Load all models of the stack, those that call other models last, and request their golden answers."""
    asks = "text_in_picture"
    for name in [*(name for name in configs if name not in (asks, _ADDITION)), asks]:
        _load(client, configs[name])
    golden: dict[str, str | None] = {}
    latency: dict[str, Latency] = {}
    with httpx.Client(base_url=f"http://{server.http}", trust_env=False, timeout=_CALL_SECONDS) as http:
        for file in sorted(repository.glob(f"*/1/{FILE}")):
            name = file.parents[1].name
            asked = Golden.parse(str(file), file.read_text(encoding="utf-8"))
            body = asked.request()

            def ask(name: str = name, body: Mapping[str, object] = body) -> httpx.Response:
                return http.post(f"/v2/models/{name}/infer", json=body).raise_for_status()

            golden[name] = asked.difference(ask().json())
            latency[name] = _latency(ask)
            typer.echo(f"{name}: golden answer {golden[name] or 'right'}, {latency[name]}")
    return Together(used_mib=_used() - before, golden=golden, latency=latency)


def _latency(ask: Callable[[], object]) -> Latency:
    took = []
    for _ in range(REQUESTS):
        begun = time.perf_counter()
        ask()
        took.append((time.perf_counter() - begun) * 1000)
    return Latency(requests=REQUESTS, p50_ms=round(median(took), 2), p95_ms=round(quantiles(took, n=20)[-1], 2))


def _until_used(mib: int) -> int:
    """Wait until at most `mib` is used for ten seconds; return the used MiB."""
    deadline = time.monotonic() + 10
    while (now := _used()) > mib and time.monotonic() < deadline:
        pass
    return now


if __name__ == "__main__":
    typer.run(main)
