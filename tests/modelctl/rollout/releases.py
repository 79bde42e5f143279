"""Releases of small models for a rollout's plan; none of them is ever loaded."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

from modelctl.release.publish import release
from modelctl.store.bucket import Store
from modelctl.store.manifest import Manifest


def config(queue: int, seconds: int) -> str:
    """Return the config of a model whose queue holds this many requests for at most this time."""
    return f"""\
backend: "python"
max_batch_size: 8
input [ {{ name: "IN" data_type: TYPE_FP32 dims: [ 1 ] }} ]
output [ {{ name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] }} ]
instance_group [ {{ kind: KIND_CPU count: 1 }} ]
dynamic_batching {{ default_queue_policy {{
  timeout_action: REJECT max_queue_size: {queue} default_timeout_microseconds: {seconds * 10**6}
}} }}
"""


CONFIG = config(64, 1)
ENSEMBLE = """\
platform: "ensemble"
max_batch_size: 8
input [ { name: "IN" data_type: TYPE_FP32 dims: [ 1 ] } ]
output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] } ]
ensemble_scheduling {
  step [ { model_name: "adder" model_version: -1
           input_map { key: "IN" value: "IN" } output_map { key: "OUT" value: "OUT" } } ]
}
"""
CODE = "class TritonPythonModel:\n    def execute(self, requests):\n        return requests\n"
_TENSOR = {"datatype": "FP32", "shape": [1, 1], "data": [1.0]}
GOLDEN = json.dumps({"inputs": {"IN": _TENSOR}, "outputs": {"OUT": _TENSOR}})


def model(name: str = "adder", version: int = 1, *, config: str = CONFIG, code: str = CODE) -> dict[str, str]:
    """Return the files of a model with one version."""
    return {
        f"{name}/config.pbtxt": config,
        f"{name}/{version}/model.py": code,
        f"{name}/{version}/golden.json": GOLDEN,
    }


def publish(store: Store, directory: Path, *models: Mapping[str, str]) -> Manifest:
    """Release only these files, without earlier ones of the directory."""
    shutil.rmtree(directory, ignore_errors=True)
    for path, text in {path: text for files in models for path, text in files.items()}.items():
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_text(text)
    return release(directory, store)
