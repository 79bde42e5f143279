"""Small ONNX models, written by the `onnx` package, so that other code reads them."""

from collections.abc import Mapping, Sequence

from onnx import ModelProto, NodeProto, TensorProto, helper
from onnx.helper import make_node

Shape = Sequence[int | str | None] | None
Tensors = Mapping[str, tuple[str, Shape]]


def model(nodes: Sequence[NodeProto], inputs: Tensors, outputs: Tensors, *, opset: int = 17, ir: int = 8) -> ModelProto:
    """Return a model; types have their ONNX names (`FLOAT`, `STRING`); a size is a number, a name, or None if unknown."""
    graph = helper.make_graph(list(nodes), "graph", _tensors(inputs), _tensors(outputs))
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    made.ir_version = ir
    return made


def _tensors(tensors: Tensors) -> list:
    return [
        helper.make_tensor_value_info(name, TensorProto.DataType.Value(of), shape) for name, (of, shape) in tensors.items()
    ]


def sums() -> ModelProto:
    """Batches: SUM and DIFFERENCE of A and B, each FLOAT [batch, 2]."""
    pair = ("FLOAT", ["batch", 2])
    nodes = [make_node("Add", ["A", "B"], ["SUM"]), make_node("Sub", ["A", "B"], ["DIFFERENCE"])]
    return model(nodes, {"A": pair, "B": pair}, {"SUM": pair, "DIFFERENCE": pair})


def same(of: str, shape: Shape) -> ModelProto:
    """OUT is IN."""
    return model([make_node("Identity", ["IN"], ["OUT"])], {"IN": (of, shape)}, {"OUT": (of, shape)})


def running_total() -> ModelProto:
    """A state: TOTAL, and its next state NEXT, is X + STATE, each FLOAT [1]."""
    one = ("FLOAT", [1])
    nodes = [make_node("Add", ["X", "STATE"], ["TOTAL"]), make_node("Identity", ["TOTAL"], ["NEXT"])]
    return model(nodes, {"X": one, "STATE": one}, {"TOTAL": one, "NEXT": one})
