"""Write a model to try, with a golden inference: `make models`, then `python3 -m modelctl try .samples/net.onnx`.

A network of two layers that computes exclusive or, with weights to check by hand: OUT = relu(a + b) - 2 relu(a + b - 1).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from onnx import TensorProto, checker, helper, numpy_helper, save

_WEIGHTS = {"HIDDEN": [[1, 1], [1, 1]], "BIAS": [0, -1], "LAST": [[1], [-2]]}
_TABLE = {(0, 0): 0, (0, 1): 1, (1, 0): 1, (1, 1): 0}


def write(folder: Path) -> Path:
    """Write net.onnx and golden.json, and return the model's path."""
    nodes = [
        helper.make_node("MatMul", ["IN", "HIDDEN"], ["sums"]),
        helper.make_node("Add", ["sums", "BIAS"], ["shifted"]),
        helper.make_node("Relu", ["shifted"], ["active"]),
        helper.make_node("MatMul", ["active", "LAST"], ["OUT"]),
    ]
    graph = helper.make_graph(
        nodes,
        "exclusive-or",
        [helper.make_tensor_value_info("IN", TensorProto.FLOAT, ["batch", 2])],
        [helper.make_tensor_value_info("OUT", TensorProto.FLOAT, ["batch", 1])],
        [numpy_helper.from_array(np.array(value, dtype=np.float32), name) for name, value in _WEIGHTS.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    checker.check_model(model)
    folder.mkdir(parents=True, exist_ok=True)
    save(model, folder / "net.onnx")
    golden = {
        "inputs": {"IN": {"datatype": "FP32", "shape": [4, 2], "data": [list(row) for row in _TABLE]}},
        "outputs": {"OUT": {"datatype": "FP32", "shape": [4, 1], "data": [[value] for value in _TABLE.values()]}},
    }
    (folder / "golden.json").write_text(json.dumps(golden), encoding="utf-8")
    return folder / "net.onnx"


def main(folder: Annotated[Path, typer.Argument(help="Directory of net.onnx and golden.json.")]) -> None:
    """Write a model to try, with a golden inference."""
    print(f"to try: python3 -m modelctl try {write(folder)}")


if __name__ == "__main__":
    typer.run(main)
