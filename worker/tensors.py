"""Convert tensors between their three forms: a message, Triton's client, and a stored result."""

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
"""Metadata key of a binary result with the length of its JSON head in bytes. KServe v2 defines the name."""


_LONGEST_SHOWN = 60
_EXACT = 2**53
"""JSON and FP64 represent every whole number up to this one exactly."""
# From half a step beyond the largest number of a type on, a float of that type is infinity.
_FLOATS = {
    "FP16": (2**16 - 2**4, "65504"),
    "BF16": (2**128 - 2**119, "3.3895e38"),
    "FP32": (2**128 - 2**103, "3.4028e38"),
    "FP64": (2**1024 - 2**970, "1.7976e308"),
}


class Document(NamedTuple):
    """A result in its stored form."""

    body: bytes
    content_type: str
    metadata: dict[str, str]


def to_input(tensor: InputTensor, content: bytes | None) -> InferInput:
    """Return the input for Triton's client; `content` is the object at the tensor's `source`. Raises Malformed."""
    try:
        array = _from_data(tensor) if content is None else _from_bytes(tensor, content)
        request = InferInput(tensor.name, list(tensor.shape), tensor.datatype)
        request.set_data_from_numpy(array.reshape(tensor.shape))
    except (ValueError, TypeError, OverflowError, struct.error, InferenceServerException) as error:
        raise Malformed(f"input {tensor.name}: {error}") from None
    return request


def result_document(result: InferResult, message_id: str, form: str) -> Document:
    """Return the result in the form that its message requests.

    `json` is KServe v2's response. A value without a JSON number is the text "NaN", "Infinity" or "-Infinity", as in
    protobuf's JSON. `binary` is KServe v2's binary extension: the same head without data, followed by the tensors.
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
    """Return the elements as an array. Raises ValueError with the place of the first element of a wrong type."""
    flat, nested = _elements(tensor)
    for number, item in enumerate(flat):
        wrong = _mistake(item, tensor.datatype)
        if wrong is not None:
            raise ValueError(f"{_place(number, tensor.shape if nested else (len(flat),))}: {wrong}")
    if tensor.datatype == "BYTES":
        return np.array([item.encode() for item in flat], dtype=np.object_)
    if tensor.datatype in _FLOATS:
        flat = [float(item) for item in flat]
    return np.array(flat, dtype=triton_to_np_dtype(tensor.datatype))


def _elements(tensor: InputTensor) -> tuple[list[Any], bool]:
    """Return the elements row by row, and whether they were nested. Nested lists must match the shape."""
    data = tensor.data or []
    if not any(isinstance(item, list) for item in data):
        if len(data) != tensor.elements:
            raise ValueError(f"{len(data)} elements where the shape {list(tensor.shape)} has {tensor.elements}")
        return data, False
    rows: list[Any] = [data]
    for depth, length in enumerate(tensor.shape):
        for number, row in enumerate(rows):
            where = _place(number, tensor.shape[:depth])
            if not isinstance(row, list):
                raise ValueError(f"{where}: {_shown(row)} where the shape {list(tensor.shape)} has a list of {length}")
            if len(row) != length:
                raise ValueError(f"{where}: a list of {len(row)} where the shape {list(tensor.shape)} has one of {length}")
        rows = [item for row in rows for item in row]
    return rows, True


def _place(number: int, shape: tuple[int, ...]) -> str:
    """Return the place of an element in a nested list of that shape, like `data[1][2]`."""
    indices = []
    for length in reversed(shape):
        number, index = divmod(number, length)
        indices.append(f"[{index}]")
    return f"data{''.join(reversed(indices))}"


def _mistake(item: Any, datatype: str) -> str | None:
    """Return why a JSON value is no element of this type. None if it is one."""
    if datatype == "BYTES":
        return None if isinstance(item, str) else f"{_shown(item)} where text is expected"
    if datatype == "BOOL":
        return None if isinstance(item, bool) else f"{_shown(item)} where true or false is expected"
    if isinstance(item, bool) or not isinstance(item, int | float):
        return f"{_shown(item)} where a number is expected"
    if datatype in _FLOATS:
        beyond, largest = _FLOATS[datatype]
        if not -beyond < item < beyond:
            return f"{_shown(item)} is beyond {datatype}, whose largest number is {largest}"
        if isinstance(item, int) and abs(item) > _EXACT and int(float(item)) != item:
            return f"{_shown(item)} has more than 53 bits, and {datatype} would change it"
        return None
    limits = np.iinfo(triton_to_np_dtype(datatype))  # numpy would truncate fractions and wrap values out of range
    if not isinstance(item, int) or not limits.min <= item <= limits.max:
        return f"{_shown(item)} is no whole number from {limits.min} to {limits.max}"
    return None


def _shown(item: Any) -> str:
    """Return a value as JSON, shortened."""
    try:
        text = json.dumps(item, ensure_ascii=False)
    except ValueError:  # more digits than Python converts
        return "a number of thousands of digits"
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def _from_bytes(tensor: InputTensor, content: bytes) -> np.ndarray:
    if tensor.datatype == "BYTES":
        array = deserialize_bytes_tensor(content)
    else:
        if tensor.datatype == "BOOL" and content.strip(b"\0\1"):
            raise ValueError(f"{tensor.source} holds bytes beside 0 and 1, which are false and true")
        array = np.frombuffer(content, dtype=triton_to_np_dtype(tensor.datatype))
    if array.size != tensor.elements:
        raise ValueError(f"{tensor.source} holds {array.size} elements and the shape {list(tensor.shape)} {tensor.elements}")
    return array


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
