"""Send a picture over HTTP to a model that reads its text.

The request uses the protocol of Triton and KServe.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spec import reading
from spec.failure import NOT_TRIED, Failure
from spec.reading import Unreadable

MODEL = "text_in_picture"
"""A model of examples/packaged. It calls three ONNX models, so its answer comes from the GPU."""
SOURCE = Path("examples", "packaged", MODEL, "1", "golden.json")
_BUSY = (429, 503)
_BUSY_SECONDS = 60.0
_POLL_SECONDS = 0.5
_TENSOR = {"datatype": str, "shape": [int], "data": []}

Post = Callable[[str, dict[str, Any]], tuple[int, bytes]]
"""Sends a document to a path; returns status and content of the response."""


class NoQuestion(Failure):
    """The model's request is missing or unreadable. The text has the remedy."""

    exit_code = NOT_TRIED


class WrongAnswer(Failure):
    """Triton gave a wrong answer. The text has the difference."""


@dataclass(frozen=True)
class Question:
    """The request document, and the expected values of each known output."""

    body: dict[str, Any]
    expected: dict[str, list[Any]]


@dataclass(frozen=True)
class Answer:
    """The values of each output, and the milliseconds of the answered request."""

    outputs: dict[str, list[Any]]
    milliseconds: float


def question() -> Question:
    """Return the request in the model's folder, with its expected answer. Raises NoQuestion."""
    try:
        golden = reading.json_file(SOURCE)
        given = {
            side: {name: reading.checked(tensor, _TENSOR, name) for name, tensor in (golden.get(side) or {}).items()}
            for side in ("inputs", "outputs")
        }
    except Unreadable as error:
        raise NoQuestion(f"{error}; run this from the root of the checkout") from None
    inputs = [{"name": name, **tensor} for name, tensor in given["inputs"].items()]
    return Question({"inputs": inputs}, {name: tensor["data"] for name, tensor in given["outputs"].items()})


def ask(asked: Question, post: Post, *, busy_seconds: float = _BUSY_SECONDS) -> Answer:
    """Send the request, and repeat it while Triton is busy. Raises WrongAnswer."""
    deadline = time.monotonic() + busy_seconds
    while True:
        started = time.monotonic()
        status, content = post(f"/v2/models/{MODEL}/infer", asked.body)
        took = (time.monotonic() - started) * 1000
        if status not in _BUSY or time.monotonic() > deadline:
            break
        time.sleep(_POLL_SECONDS)
    said = content.decode("utf-8", "replace")[:500].strip()
    if status != 200:
        raise WrongAnswer(f"{MODEL} answers {status}: {said or 'nothing'}")
    try:
        form = {"outputs": [{"name": str, "data": []}]}
        # Not with reading.json_object: an ensemble's answer repeats keys of its `parameters`, once for each step.
        found = reading.checked(json.loads(content), form, "the answer")["outputs"]
    except (Unreadable, ValueError, KeyError, RecursionError) as error:
        raise WrongAnswer(f"{MODEL} answers with what is no inference ({error}): {said}") from None
    outputs = {str(output.get("name")): output.get("data") or [] for output in found}
    for name, values in asked.expected.items():
        if outputs.get(name) != values:
            raise WrongAnswer(f"{MODEL} answers {name} {outputs.get(name)}, and {SOURCE} says {values}")
    return Answer(outputs, round(took, 1))
