"""Convert numpy arrays to and from the inputs and outputs of Triton's gRPC client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from tritonclient.grpc import InferInput, InferResult
from tritonclient.utils import np_to_triton_dtype

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Answer:
    """A model's answer: outputs by name, the version that produced them, and the number of attempts."""

    version: str
    outputs: Arrays
    attempts: int


def to_inputs(arrays: Arrays) -> list[InferInput]:
    """Convert arrays to request inputs. Strings are arrays of dtype object with bytes; shapes include the batch."""
    inputs = []
    for name, array in arrays.items():
        tensor = InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
        tensor.set_data_from_numpy(array)
        inputs.append(tensor)
    return inputs


def to_answer(result: InferResult, attempts: int) -> Answer:
    """Convert a result to an answer."""
    response = result.get_response()
    outputs = {output.name: result.as_numpy(output.name) for output in response.outputs}
    return Answer(response.model_version, outputs, attempts)
