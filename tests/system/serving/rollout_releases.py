"""Releases of one small model for rollouts: version N answers its input plus N."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from pathlib import Path

from modelctl.release.publish import release
from modelctl.store.bucket import Store
from modelctl.store.manifest import Manifest
from tests.modelctl.rollout.releases import config

MODEL = "adder"

_CODE = """\
import time

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        time.sleep({seconds})
        tensors = [pb_utils.get_input_tensor_by_name(request, "IN").as_numpy() for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", tensor + {plus})]) for tensor in tensors]
"""

_FAILING_CODE = """\
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.executions = 0

    def execute(self, requests):
        self.executions += 1
        if self.executions > {after} and self.executions % {every} == 0:
            raise pb_utils.TritonModelException("the fiftieth")
        tensors = [pb_utils.get_input_tensor_by_name(request, "IN").as_numpy() for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", tensor + {version})]) for tensor in tensors]
"""

CONFIG = config(256, 60)


def code(version: int, *, plus: int | None = None, seconds: float = 0.0) -> str:
    """Return a version's model.py; `plus` is the added number if it is wrong on purpose."""
    return _CODE.format(plus=version if plus is None else plus, seconds=seconds)


def failing_code(version: int, *, every: int, after: int = 20) -> str:
    """Return model.py of a version that fails one of `every` executions on each pod, after the first `after` ones."""
    return _FAILING_CODE.format(version=version, every=every, after=after)


def golden(version: int, *, expected: float | None = None) -> str:
    tensor = {"datatype": "FP32", "shape": [1, 1]}
    out = 41.0 + version if expected is None else expected
    return json.dumps(
        {"inputs": {"IN": {**tensor, "data": [41.0]}}, "outputs": {"OUT": {**tensor, "data": [out]}}, "tolerance": 1e-5}
    )


def publish(
    store: Store,
    directory: Path,
    version: int,
    files: Mapping[str, str] | None = None,
    *,
    model: str = MODEL,
    config: str = CONFIG,
    others: Mapping[str, str] | None = None,
) -> Manifest:
    """Release one version of the model. `files` replace files of its directory (an empty one is left out); `others` are
    further files by path in the repository.
    """
    contents = {"model.py": code(version), "golden.json": golden(version), **(files or {})}
    written = {f"{model}/config.pbtxt": config, **{f"{model}/{version}/{name}": text for name, text in contents.items()}}
    for path, text in {**written, **(others or {})}.items():
        if text:
            file = directory / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(textwrap.dedent(text))
    return release(directory, store)
