"""Parse a message of the queue: one inference request, in the terms of the KServe v2 protocol.

  {
    "model": "classify",
    "inputs": [{"name": "NORMALIZED", "datatype": "FP32", "shape": [1, 4], "data": [0.1, 0.2, 0.3, 0.4]}],

    "version": "2",                                   optional; default: Triton's choice
    "outputs": [{"name": "CLASS"}],                   optional; default: all outputs
    "parameters": {"temperature": 0.5},               optional: text, whole numbers, numbers, true or false
    "result": "binary",                               optional; default: json
    "reply_to": "https://sqs.…/123456789012/answers"  optional: a queue that gets the location of the result
  }

Elements are numbers, true or false, or text, according to the datatype. These are refused: null, values without a JSON
number (NaN, infinities), and numbers outside the datatype's range. A floating-point type uses its nearest number. A whole
number of more than 53 bits, which many JSON readers change, must be exact. Elements are flat, row by row, or nested
according to the shape.

A message is at most 1 MiB (SQS). A larger tensor is stored in S3, and the message refers to it:

  {"name": …, "datatype": …, "shape": …, "source": "s3://<the queue's bucket>/inputs/<any key>"}

The object has the format of KServe v2's binary extension: little-endian, row by row, each BYTES element after its length in
four bytes. A message refers to at most 64 objects, with at most 64 MiB in total, or less if its worker has less memory.

A json result has BYTES as text, and U+FFFD replaces invalid UTF-8; a binary result keeps every byte.
"""

from __future__ import annotations

import json
import math
import re
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationError,
    model_validator,
)

Datatype = Literal[
    "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64", "BF16", "BYTES"
]  # fmt: skip
ModelName = Annotated[StrictStr, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")]
_Name = Annotated[StrictStr, Field(pattern=r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]{1,256}$")]
TensorName = _Name

# Reserved because they have separate fields in the protocol, or need an order of requests that a queue does not keep.
_RESERVED = frozenset({"sequence_id", "sequence_start", "sequence_end", "priority", "binary_data_output", "headers"})
_SOURCE = re.compile(r"^s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])/([^\x00-\x1f\x7f-\x9f\u2028\u2029]{1,1024})$")
_LONGEST_KEY_BYTES = 1024
MOST_SOURCES = 64
LARGEST_INPUT_BYTES = 64 * 1024**2
"""Limit for all objects to which one message refers."""
_LONGEST_DETAIL = 500
_LONGEST_NAME = 60
_INT64 = range(-(2**63), 2**63)


class Malformed(Exception):
    """A body does not have this format, and no later attempt can change that. The text has the mistakes and their places."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class InputTensor(_Part):
    """One input: either its elements (`data`, nested by dimension or flat), or their location (`source`)."""

    name: TensorName
    datatype: Datatype
    shape: Annotated[tuple[Annotated[StrictInt, Field(ge=0, lt=2**63)], ...], Field(min_length=1, max_length=32)]
    data: list[Any] | None = None
    source: Annotated[StrictStr, Field(pattern=_SOURCE.pattern)] | None = None

    @model_validator(mode="after")
    def _either_data_or_source(self) -> InputTensor:
        if (self.data is None) == (self.source is None):
            raise ValueError("give either data or source")
        if self.source is not None and (size := len(self.location[1].encode())) > _LONGEST_KEY_BYTES:
            raise ValueError(f"source: a key of {size} bytes; S3 has none of more than {_LONGEST_KEY_BYTES}")
        if self.source is not None and {".", ".."} & set(self.location[1].split("/")):
            raise ValueError("source: a key with . or .. between slashes, which not everybody reads alike")
        return self

    @property
    def elements(self) -> int:
        """Return the number of elements in the shape."""
        return math.prod(self.shape)

    @property
    def location(self) -> tuple[str, str]:
        """Return bucket and key of `source`."""
        found = _SOURCE.fullmatch(self.source or "")
        assert found is not None, "checked by the pattern of `source`"
        return found[1], found[2]


class OutputTensor(_Part):
    """A requested output."""

    name: TensorName


class InferenceRequest(_Part):
    """The body of a message."""

    model: ModelName
    version: Annotated[StrictStr, Field(pattern=r"^[1-9][0-9]{0,17}$")] | None = None
    inputs: Annotated[tuple[InputTensor, ...], Field(min_length=1)]
    outputs: tuple[OutputTensor, ...] = ()
    parameters: dict[_Name, StrictBool | StrictInt | StrictFloat | StrictStr] = Field(default_factory=dict)
    result: Literal["json", "binary"] = "json"
    reply_to: Annotated[StrictStr, Field(pattern=r"^https?://\S+$")] | None = None

    @model_validator(mode="after")
    def _no_reserved_parameter(self) -> InferenceRequest:
        reserved = sorted(name for name in self.parameters if name in _RESERVED or name.startswith("triton_"))
        if reserved:
            raise ValueError(f"parameters: {', '.join(reserved)} cannot be given through a queue")
        long = sorted(name for name, value in self.parameters.items() if type(value) is int and value not in _INT64)
        if long:
            raise ValueError(f"parameters: {', '.join(long)}: a whole number of more than 64 bits cannot be sent")
        # https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_schedule_policy.md
        timeout = self.parameters.get("timeout", 0)
        if type(timeout) is not int or timeout < 0:
            raise ValueError("parameters: timeout: a whole number of microseconds is expected")
        return self

    @model_validator(mode="after")
    def _few_sources(self) -> InferenceRequest:
        sources = sum(tensor.source is not None for tensor in self.inputs)
        if sources > MOST_SOURCES:
            raise ValueError(f"inputs: {sources} objects are named as source; a message names at most {MOST_SOURCES}")
        return self

    @model_validator(mode="after")
    def _no_tensor_twice(self) -> InferenceRequest:
        for what, tensors in (("inputs", self.inputs), ("outputs", self.outputs)):
            names = [tensor.name for tensor in tensors]
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise ValueError(f"{what}: {', '.join(twice)} is there twice")
        return self


def parse(body: str) -> InferenceRequest:
    """Return the request in a message's body. Raises Malformed with all its mistakes."""
    try:
        request = InferenceRequest.model_validate_json(body)
        read = json.loads(body, parse_float=_finite, parse_int=_whole, parse_constant=_no_constant, object_pairs_hook=once)
    except ValidationError as error:
        mistakes = [dict(item) for item in error.errors(include_url=False)]
        wrong = dict.fromkeys(_sentence(item) for item in mistakes if not _is_echo(item))
        raise Malformed("; ".join(wrong)[:_LONGEST_DETAIL]) from None
    except (ValueError, RecursionError) as error:
        raise Malformed(str(error)[:_LONGEST_DETAIL]) from None
    return _with_signs(request, read)


def _with_signs(request: InferenceRequest, read: dict[str, Any]) -> InferenceRequest:
    """Restore the sign of `-0`, which pydantic reads as 0, because a floating-point model may distinguish them."""
    inputs = (
        tensor if tensor.data is None else tensor.model_copy(update={"data": given["data"]})
        for tensor, given in zip(request.inputs, read["inputs"], strict=True)
    )
    return request.model_copy(update={"inputs": tuple(inputs)})


class _MinusZero(int):
    """`-0`: as a whole number 0, as a floating-point number with its sign."""

    def __float__(self) -> float:
        return -0.0


def _whole(text: str) -> int:
    return _MinusZero() if text == "-0" else int(text)


def _is_echo(item: dict[str, Any]) -> bool:
    """Return whether the error only repeats another. Pydantic also calls a list too short if its items are wrong."""
    return item["type"] == "too_short" and bool(item["input"])


def _sentence(item: dict[str, Any]) -> str:
    place = item["loc"]
    if place[:1] == ("parameters",) and len(place) == 3 and place[2] != "[key]":
        return f"{_path(place[:2])}text, a whole number, a number, true or false is expected"
    return f"{_path(place)}{item['msg']}"


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text[:_LONGEST_NAME]} is beyond every type of number")
    if number == 0 and re.match(r"-?[0.]*[1-9]", text):
        raise ValueError(f"{text[:_LONGEST_NAME]} is too small for every type of number; write 0 if that is meant")
    return number


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON; a tensor that has one goes to S3 (source)")


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse duplicate keys, because JSON does not define them and readers differ."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {json.dumps(key)[:_LONGEST_NAME]} is there twice in one object")
        found[key] = value
    return found


def _path(location: tuple[int | str, ...]) -> str:
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in location).removeprefix(".")
    return f"{path}: " if path else ""
