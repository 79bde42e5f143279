"""Tensors between the three forms that they have here: a message, Triton's client, and a stored result."""

from __future__ import annotations

import json
import math
import struct
from typing import Any, NamedTuple

import numpy as np
from google.protobuf.message import Message
from tritonclient.grpc import InferInput, InferResult
from tritonclient.utils import InferenceServerException, deserialize_bytes_tensor, triton_to_np_dtype

from worker.message import InputTensor, Malformed

_JSON, _BINARY = "application/json", "application/octet-stream"
HEADER_LENGTH = "inference-header-content-length"
"""Metadata of a binary result: the bytes of its JSON head, by the name that KServe v2 has for it."""


class Document(NamedTuple):
    """A result as it is stored."""

    body: bytes
    content_type: str
    metadata: dict[str, str]


def to_input(tensor: InputTensor, content: bytes | None) -> InferInput:
    """The input that Triton's client sends; `content` is what lies at the tensor's `source`. Raises Malformed."""
    try:
        array = _from_data(tensor) if content is None else _from_bytes(tensor, content)
        request = InferInput(tensor.name, list(tensor.shape), tensor.datatype)
        request.set_data_from_numpy(array.reshape(tensor.shape))
    except (ValueError, TypeError, OverflowError, struct.error, InferenceServerException) as error:
        raise Malformed(f"input {tensor.name}: {error}") from None
    return request


def result_document(result: InferResult, message_id: str, form: str) -> Document:
    """The result in the form that its message wants.

    `json` is KServe v2's response. A number that JSON does not have is the text "NaN", "Infinity" or "-Infinity", as in
    protobuf's JSON. `binary` is KServe v2's binary extension: the same head without data, then one tensor after the other.
    """
    response = result.get_response()
    outputs, tail = [], b""
    for output, raw in zip(response.outputs, _raw_contents(response), strict=True):
        entry: dict[str, Any] = {"name": output.name, "datatype": output.datatype, "shape": list(output.shape)}
        if form == "binary":
            entry["parameters"] = {"binary_data_size": len(raw)}
            tail += raw
        else:
            entry["data"] = _to_json(result.as_numpy(output.name), output.datatype)
        outputs.append(entry)
    head = {
        "id": message_id,
        "model_name": response.model_name,
        "model_version": response.model_version,
        "outputs": outputs,
    }
    text = json.dumps(head, allow_nan=False, separators=(",", ":")).encode()
    if form == "binary":
        return Document(text + tail, _BINARY, {HEADER_LENGTH: str(len(text))})
    return Document(text, _JSON, {})


def _from_data(tensor: InputTensor) -> np.ndarray:
    flat = _flat(tensor.data or [])
    if len(flat) != tensor.elements:
        raise ValueError(f"{len(flat)} elements where the shape {list(tensor.shape)} has {tensor.elements}")
    if tensor.datatype == "BYTES":
        wrong = next((item for item in flat if not isinstance(item, str)), None)
        if wrong is not None:
            raise ValueError(f"{wrong!r} where text is expected")
        return np.array([item.encode() for item in flat], dtype=np.object_)
    if tensor.datatype == "BOOL":
        wrong = next((item for item in flat if not isinstance(item, bool)), None)
        if wrong is not None:
            raise ValueError(f"{wrong!r} where true or false is expected")
        return np.array(flat, dtype=np.bool_)
    wrong = next((item for item in flat if isinstance(item, bool) or not isinstance(item, int | float)), None)
    if wrong is not None:
        raise ValueError(f"{wrong!r} where a number is expected")
    if tensor.datatype in ("FP16", "FP32", "FP64", "BF16"):
        return np.array(flat, dtype=triton_to_np_dtype(tensor.datatype))
    return _whole_numbers(flat, triton_to_np_dtype(tensor.datatype))


def _whole_numbers(flat: list[Any], kind: Any) -> np.ndarray:
    """numpy would cut fractions off, and wrap what does not fit."""
    limits = np.iinfo(kind)
    for item in flat:
        if not isinstance(item, int) or not limits.min <= item <= limits.max:
            raise ValueError(f"{item!r} is no whole number from {limits.min} to {limits.max}")
    return np.array(flat, dtype=kind)


def _from_bytes(tensor: InputTensor, content: bytes) -> np.ndarray:
    if tensor.datatype == "BYTES":
        array = deserialize_bytes_tensor(content)
    else:
        array = np.frombuffer(content, dtype=triton_to_np_dtype(tensor.datatype))
    if array.size != tensor.elements:
        raise ValueError(f"{tensor.source} holds {array.size} elements and the shape {list(tensor.shape)} {tensor.elements}")
    return array


def _flat(data: Any) -> list[Any]:
    return [item for part in data for item in _flat(part)] if isinstance(data, list) else [data]


def _raw_contents(response: Message) -> list[bytes]:
    return list(response.raw_output_contents)  # type: ignore[attr-defined]


def _to_json(array: np.ndarray, datatype: str) -> list[Any]:
    if datatype == "BF16":
        array = array.astype(np.float32)  # numpy has no numbers of that size
    flat = array.reshape(-1).tolist()
    if array.dtype.kind == "f":
        return [item if math.isfinite(item) else _unusual(item) for item in flat]
    return [item.decode(errors="replace") if isinstance(item, bytes) else item for item in flat]


def _unusual(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    return "Infinity" if number > 0 else "-Infinity"
