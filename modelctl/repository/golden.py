"""Read golden inferences: `<model>/<version>/golden.json`, one request and the answer that the version must give."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from modelctl import documents
from modelctl.documents import DocumentError
from spec.settings.release import LARGEST_TOLERANCE

FILE = "golden.json"


class GoldenError(ValueError):
    """A golden.json cannot be used; the text says why."""


class Tensor(BaseModel):
    """A tensor of the inference protocol; `data` in row-major order, nested or flat."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    datatype: Literal[
        "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64", "BYTES"
    ]
    shape: tuple[Annotated[int, Field(ge=0)], ...]
    data: list[Any]

    @model_validator(mode="after")
    def _full(self) -> Tensor:
        if any(isinstance(entry, list) for entry in self.data) and _nesting(self.data) != self.shape:
            raise ValueError(
                f"it is nested in another way than the shape {list(self.shape)} says; nest it so, or not at all"
            )
        if (count := len(list(flat(self.data)))) != math.prod(self.shape):
            raise ValueError(f"{count} values do not fill the shape {list(self.shape)}")
        return self


class Request(BaseModel):
    """The inputs of a request, without outputs, as in golden.json."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    inputs: Annotated[dict[str, Tensor], Field(min_length=1)]

    @classmethod
    def parse(cls, place: str, text: str) -> Self:
        """Read the text of `place`. Raises GoldenError."""
        try:
            return documents.read(cls, text.encode(errors="surrogatepass"))
        except DocumentError as error:
            raise GoldenError(f"{place}: {error}") from None


class Golden(Request):
    """A request with its expected answer.

    Numbers may differ by `tolerance`, relative to the expected number if its magnitude is over 1. All other values must be
    equal.
    """

    outputs: Annotated[dict[str, Tensor], Field(min_length=1)]
    tolerance: Annotated[float, Field(ge=0, le=LARGEST_TOLERANCE, allow_inf_nan=False)] = 1e-5

    def request(self) -> dict[str, Any]:
        """Return the JSON body of the request."""
        inputs = [
            {"name": name, "datatype": tensor.datatype, "shape": list(tensor.shape), "data": list(flat(tensor.data))}
            for name, tensor in self.inputs.items()
        ]
        return {"inputs": inputs, "outputs": [{"name": name} for name in self.outputs]}

    def difference(self, answer: Mapping[str, Any]) -> str | None:
        """Return the first difference between the JSON body of an answer and the expected answer. None if there is none."""
        given = {output["name"]: output for output in answer.get("outputs", [])}
        for name, expected in self.outputs.items():
            output = given.get(name)
            if output is None:
                return f"it has no output {name}"
            if output["datatype"] != expected.datatype or list(output["shape"]) != list(expected.shape):
                return (
                    f"{name} is {output['datatype']} {list(output['shape'])}, "
                    f"expected {expected.datatype} {list(expected.shape)}"
                )
            pairs = zip(flat(output["data"]), flat(expected.data), strict=True)
            for index, (value, wanted) in enumerate(pairs):
                if not _close(value, wanted, self.tolerance):
                    return f"{name}[{index}] is {value}, expected {wanted} (tolerance {self.tolerance:g})"
        return None


def _nesting(data: Any) -> tuple[int, ...] | None:
    """Return the lengths of nested lists, the outermost first. None if lengths at one depth differ."""
    if not isinstance(data, list):
        return ()
    inner = {_nesting(entry) for entry in data}
    below = inner.pop() if len(inner) == 1 else None if inner else ()
    return None if below is None else (len(data), *below)


def flat(data: Any) -> Iterator[Any]:
    """Yield the values of nested lists in order."""
    if isinstance(data, list):
        for entry in data:
            yield from flat(entry)
    else:
        yield data


def _close(value: Any, wanted: Any, tolerance: float) -> bool:
    if isinstance(wanted, int | float) and not isinstance(wanted, bool) and isinstance(value, int | float):
        return abs(value - wanted) <= tolerance * max(1.0, abs(wanted))
    return bool(value == wanted)
