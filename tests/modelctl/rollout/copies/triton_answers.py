"""Answers in Triton's form, over HTTP and gRPC."""

import json
from typing import Any

import numpy as np
from tritonclient.grpc.service_pb2 import ModelInferResponse
from tritonclient.utils import np_to_triton_dtype, serialize_byte_tensor

from modelctl.rollout.copies.answer import Answer, of_grpc


def message(**outputs: Any) -> bytes:
    """Return a ModelInferResponse with these arrays."""
    answer = ModelInferResponse(model_name="m")
    for name, values in outputs.items():
        array = np.asarray(values)
        answer.outputs.add(name=name, datatype=np_to_triton_dtype(array.dtype), shape=array.shape)
        raw = serialize_byte_tensor(array).item() if array.dtype == np.object_ else array.tobytes()
        answer.raw_output_contents.append(raw)
    return answer.SerializeToString()


def answer(**outputs: Any) -> Answer:
    return of_grpc(message(**outputs))


def floats(*values: float) -> Any:
    return np.array([values], dtype=np.float32)


def texts(*values: bytes) -> Any:
    return np.array(values, dtype=np.object_)


def binary_body(**outputs: Any) -> tuple[bytes, int]:
    """Return the body of an HTTP answer with binary tensors, and its JSON length."""
    parts, listed = [], []
    for name, array in outputs.items():
        raw = serialize_byte_tensor(array).item() if array.dtype == np.object_ else array.tobytes()
        parts.append(raw)
        listed.append(
            {
                "name": name,
                "datatype": np_to_triton_dtype(array.dtype),
                "shape": list(array.shape),
                "parameters": {"binary_data_size": len(raw)},
            }
        )
    head = json.dumps({"outputs": listed}).encode()
    return head + b"".join(parts), len(head)
