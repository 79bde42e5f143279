"""From files to answers with four keys per model: a 400 MB transformer, a detector, a TorchScript file, and a pipeline.

The files pass `modelctl import` and `release`, the stack file pins the release, and a real server loads it. No test loads
the TorchScript model, because the server of PyPI has no PyTorch backend: the file has a TorchScript archive's layout without
a network, and the pod gets the other models.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tritonclient.http as triton
from google.protobuf import text_format
from onnx import helper, numpy_helper
from tritonclient.grpc.model_config_pb2 import ModelConfig

from modelctl.release.pin import pin_accepted
from modelctl.release.progress import Silent
from modelctl.release.publish import Plan, prepare
from modelctl.store.bucket import PART_BYTES
from spec.settings import load_stack_file
from tests import onnx_models
from tests.modelctl.stacks import wants, write_stack
from tests.paths import ROOT
from tests.system.serving.pods import HTTP, Kubelet

WORDS, WIDTH = 102_400, 1024
START_SECONDS = 240
SERVED = {"sentiment": 1, "tokenizer": 1, "transformer": 1, "verdict": 1, "detector": 1}
TOKENIZER = """
import numpy as np
import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        return [self.tokens(pb.get_input_tensor_by_name(request, "TEXT").as_numpy()) for request in requests]

    def tokens(self, texts):
        if not all(text[0] for text in texts):
            raise ValueError("an empty text, as a warm-up with zeros would send it")
        return pb.InferenceResponse([pb.Tensor("IDS", np.array([list(text[0]) for text in texts], dtype=np.int64))])
"""
VERDICT = """
import numpy as np
import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        scores = [pb.get_input_tensor_by_name(request, "SCORES").as_numpy() for request in requests]
        words = [np.array([[b"high" if a > b else b"low"] for a, b in each], dtype=object) for each in scores]
        return [pb.InferenceResponse([pb.Tensor("VERDICT", each)]) for each in words]
"""
PYTHON = """
backend: "python"
max_batch_size: 8
input [ {{ name: "{0}" data_type: {1} dims: [ {2} ] }} ]
output [ {{ name: "{3}" data_type: {4} dims: [ {5} ] }} ]
"""
PIPELINE = """
platform: "ensemble"
max_batch_size: 8
input [ { name: "TEXT" data_type: TYPE_STRING dims: [ 1 ] } ]
output [ { name: "VERDICT" data_type: TYPE_STRING dims: [ 1 ] } ]
ensemble_scheduling { step [
  { model_name: "tokenizer" model_version: -1
    input_map { key: "TEXT" value: "TEXT" } output_map { key: "IDS" value: "ids" } },
  { model_name: "transformer" model_version: -1
    input_map { key: "input_ids" value: "ids" } output_map { key: "scores" value: "scores" } },
  { model_name: "verdict" model_version: -1
    input_map { key: "SCORES" value: "scores" } output_map { key: "VERDICT" value: "VERDICT" } }
] }
"""
TORCH = """
backend: "pytorch"
max_batch_size: 8
input [ { name: "INPUT__0" data_type: TYPE_FP32 dims: [ 3, -1, -1 ] } ]
output [ { name: "OUTPUT__0" data_type: TYPE_FP32 dims: [ 1000 ] } ]
"""


def transformer() -> onnx.ModelProto:
    """Return a model with 400 MB of embeddings: row i is full of i. The first score is the ids' mean, the second is 100."""
    table = np.repeat(np.arange(WORDS, dtype=np.float32)[:, None], WIDTH, axis=1)
    weights = np.zeros((WIDTH, 2), dtype=np.float32)
    weights[:, 0] = 1 / WIDTH
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["embedded"]),
        helper.make_node("ReduceMean", ["embedded"], ["mean"], axes=[1], keepdims=0),
        helper.make_node("MatMul", ["mean", "weights"], ["product"]),
        helper.make_node("Add", ["product", "bias"], ["scores"]),
    ]
    ids, scores = {"input_ids": ("INT64", ["batch", "sequence"])}, {"scores": ("FLOAT", ["batch", 2])}
    model = onnx_models.model(nodes, ids, scores)
    for name, values in (("table", table), ("weights", weights), ("bias", np.array([0, 100], dtype=np.float32))):
        model.graph.initializer.append(numpy_helper.from_array(values, name))
    return model


def detector() -> onnx.ModelProto:
    """Return a model that finds the brightest value of an image of any size."""
    nodes = [helper.make_node("ReduceMax", ["picture"], ["brightest"], axes=[1, 2, 3], keepdims=0)]
    return onnx_models.model(
        nodes, {"picture": ("FLOAT", ["batch", 3, "height", "width"])}, {"brightest": ("FLOAT", ["batch"])}
    )


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Return a folder that is deleted with its weights, because pytest would keep it for three runs."""
    yield tmp_path / "files"
    shutil.rmtree(tmp_path / "files")


def write_models(folder: Path) -> Path:
    models = folder / "models"
    models.mkdir(parents=True)
    for name, made in (("transformer", transformer()), ("detector", detector())):
        (folder / f"{name}.onnx").write_bytes(made.SerializeToString())
        command = [sys.executable, "-m", "modelctl", "import", str(folder / f"{name}.onnx"), "--into", str(models)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=START_SECONDS)
        assert done.returncode == 0, done.stderr
        (folder / f"{name}.onnx").unlink()
    python = {
        "tokenizer": (TOKENIZER, ("TEXT", "TYPE_STRING", 1, "IDS", "TYPE_INT64", -1)),
        "verdict": (VERDICT, ("SCORES", "TYPE_FP32", 2, "VERDICT", "TYPE_STRING", 1)),
    }
    for name, (code, tensors) in python.items():
        (models / name / "1").mkdir(parents=True)
        (models / name / "1" / "model.py").write_text(code)
        (models / name / "config.pbtxt").write_text(PYTHON.format(*tensors))
    for name, config in (("sentiment", PIPELINE), ("network", TORCH)):
        (models / name / "1").mkdir(parents=True)
        (models / name / "config.pbtxt").write_text(config)
    (models / "sentiment" / "1" / ".keep").touch()
    with zipfile.ZipFile(models / "network" / "1" / "model.pt", "w") as archive:
        for name in ("data.pkl", "code/__torch__.py", "constants.pkl", "version"):
            archive.writestr(f"network/{name}", b"")
    return models


def write_repository(plan: Plan, folder: Path) -> Path:
    """Write the release as pods get it, without `network`; server 2.51 is older than model_metrics, the SLO's histogram."""
    for key, planned in plan.objects.items():
        if key.startswith("network/"):
            continue
        path = folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(planned.source, Path):
            path.hardlink_to(planned.source)
        elif path.parent.name == "configs":
            config = text_format.Parse(planned.source.decode(), ModelConfig())
            config.ClearField("model_metrics")
            path.write_text(text_format.MessageToString(config))
        else:
            path.write_bytes(planned.source)
    return folder


def ask(client: triton.InferenceServerClient, model: str, name: str, values: np.ndarray[Any, Any], output: str) -> list[Any]:
    kinds = {"O": "BYTES", "f": "FP32", "i": "INT64"}
    request = triton.InferInput(name, list(values.shape), kinds[values.dtype.kind])
    request.set_data_from_numpy(values)
    answer = client.infer(model, [request]).as_numpy(output)
    assert answer is not None
    return list(answer.ravel())


def test_four_kinds_of_models_get_from_files_to_answers_with_four_keys_each(folder: Path, kubelet: Kubelet) -> None:
    models = write_models(folder)
    # device, sloP95Ms, expectedRate and peakRate; the pipeline's steps have no entry.
    entries = {name: wants(sloP95Ms=2000) for name in ("sentiment", "detector", "network")}
    stack = write_stack(folder / "stacks", entries)

    plan = prepare(models, PART_BYTES, Silent(), folder / "stacks")
    assert pin_accepted(stack, plan.manifest) != []
    assert plan.manifest.bytes > 400_000_000
    assert set(load_stack_file(stack).models.serving) == {*SERVED, "network"}

    repository = write_repository(plan, folder / "repository")
    pod = kubelet.pod(SERVED, repository, {"release": {"configName": "dev"}}).start()
    pod.until_ready(START_SECONDS)
    client = triton.InferenceServerClient(f"{pod.address}:{HTTP}", network_timeout=60)
    for text, verdict in ((b"zzz", b"high"), (b"  !", b"low")):  # the means of their bytes are 122 and 32.3
        assert ask(client, "sentiment", "TEXT", np.array([[text]], dtype=object), "VERDICT") == [verdict]
    assert ask(client, "transformer", "input_ids", np.array([[7, 102_399]]), "scores") == [51203.0, 100.0]
    picture = np.zeros((1, 3, 6, 9), dtype=np.float32)
    picture[0, 2, 4, 8] = 0.75
    assert ask(client, "detector", "picture", picture, "brightest") == [0.75]
