"""Read the responses of two releases to one request, and compare them within a tolerance."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from google.protobuf.message import DecodeError
from tritonclient.grpc.service_pb2 import ModelInferResponse
from tritonclient.utils import deserialize_bytes_tensor, triton_to_np_dtype

from modelctl.repository.golden import flat


class NoAnswer(ValueError):
    """A server sent no comparable response. The text gives the reason and none of its values."""


@dataclass(frozen=True)
class Output:
    """An output tensor of a response; `values` have its shape."""

    datatype: str
    values: npt.NDArray[Any]

    def __str__(self) -> str:
        return f"{self.datatype} {list(self.values.shape)}"


Answer = Mapping[str, Output]


@dataclass(frozen=True)
class Difference:
    """How a response differs, without any of its values.

    `distance`: the distance of the farthest number; None for a difference of another kind.
    """

    said: str
    distance: float | None = None


def of_http(content: bytes, json_length: int | None) -> Answer:
    """Read an HTTP response body, which begins with JSON if binary tensors follow. Raises NoAnswer."""
    try:
        found: dict[str, Output] = {}
        at = len(content) if json_length is None else json_length
        for output in json.loads(content[:at])["outputs"]:
            datatype = output["datatype"]
            size = output.get("parameters", {}).get("binary_data_size")
            if size is None:
                values = np.array(list(flat(output["data"])), dtype=_type(datatype))
            else:
                values = _of_bytes(content[at : at + size], datatype)
                at += size
            found[output["name"]] = Output(datatype, values.reshape(output["shape"]))
        return found
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError, struct.error) as error:
        raise NoAnswer(f"it answers with what is no answer of Triton ({type(error).__name__})") from None


def of_grpc(message: bytes) -> Answer:
    """Read a gRPC response. Raises NoAnswer."""
    try:
        answer = ModelInferResponse.FromString(message)
        pairs = zip(answer.outputs, answer.raw_output_contents, strict=True)
        return {
            output.name: Output(output.datatype, _of_bytes(raw, output.datatype).reshape(tuple(output.shape)))
            for output, raw in pairs
        }
    except (DecodeError, ValueError, TypeError, struct.error) as error:
        raise NoAnswer(f"it answers with what is no answer of Triton ({type(error).__name__})") from None


def difference(right: Answer, found: Answer, tolerance: float) -> Difference | None:
    """Return the first difference between a response and `right`; None when there is none.

    Numbers may differ by `tolerance`, relative to the right number if its magnitude is over 1. All other values must be
    equal, as for golden.json. An additional output is no difference, because clients do not use it yet.
    """
    for name, expected in right.items():
        output = found.get(name)
        if output is None:
            return Difference(f"it has no output {name}")
        if str(output) != str(expected):
            return Difference(f"{name} is {output}, in place of {expected}")
        other = _differing(expected.values, output.values, tolerance)
        if other is not None:
            return Difference(f"{name}: {other.said}", other.distance)
    return None


def _differing(right: npt.NDArray[Any], found: npt.NDArray[Any], tolerance: float) -> Difference | None:
    same = np.asarray(right == found)
    if right.dtype == np.object_ or right.dtype == np.bool_:
        count = int(same.size - same.sum())
        return Difference(f"{count} of {same.size} values") if count else None
    with np.errstate(all="ignore"):
        expected, given = right.astype(np.float64), found.astype(np.float64)
        distance = np.abs(given - expected) / np.maximum(1.0, np.abs(expected))
        # Without a tolerance, integers must be equal even if they are too large for a float.
        close = same | ((distance <= tolerance) & (tolerance > 0)) | (np.isnan(expected) & np.isnan(given))
    count = int(close.size - close.sum())
    if not count:
        return None
    farthest = float(np.nan_to_num(distance[~close], nan=math.inf, posinf=math.inf).max())
    return Difference(
        f"{count} of {close.size} values, the farthest by {farthest:.3g} (tolerance {tolerance:g})", distance=farthest
    )


def _of_bytes(content: bytes, datatype: str) -> npt.NDArray[Any]:
    if datatype == "BYTES":
        strings: npt.NDArray[Any] = deserialize_bytes_tensor(content)
        return strings
    return np.frombuffer(content, dtype=_type(datatype))


def _type(datatype: str) -> Any:
    """Return the numpy type of a datatype. Raises ValueError."""
    found = triton_to_np_dtype(datatype)
    if found is None:
        raise ValueError(f"there is no datatype {datatype}")
    return found
