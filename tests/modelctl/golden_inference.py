"""A version's golden.json, sent to a real server."""

from pathlib import Path

import numpy as np
import tritonclient.grpc as grpc
from tritonclient.utils import triton_to_np_dtype

from modelctl.repository.golden import FILE, Golden, Tensor, flat
from tests import waiting


def golden_difference(client: grpc.InferenceServerClient, model: str, version_directory: Path) -> str | None:
    """Return the difference between the server's answer and the expected one, or None."""
    golden = Golden.parse(model, (version_directory / FILE).read_text())
    inputs = []
    for name, tensor in golden.inputs.items():
        given = grpc.InferInput(name, list(tensor.shape), tensor.datatype)
        given.set_data_from_numpy(_array(tensor))
        inputs.append(given)
    answer = waiting.answer(client, model, inputs)
    outputs = []
    for name, tensor in golden.outputs.items():
        values = answer.as_numpy(name)
        data = [value.decode() if isinstance(value, bytes) else value for value in values.flatten().tolist()]
        outputs.append({"name": name, "datatype": tensor.datatype, "shape": list(values.shape), "data": data})
    return golden.difference({"outputs": outputs})


def _array(tensor: Tensor) -> np.ndarray:
    if tensor.datatype == "BYTES":
        return np.array([value.encode() for value in flat(tensor.data)], dtype=np.object_).reshape(tensor.shape)
    return np.array(list(flat(tensor.data)), dtype=triton_to_np_dtype(tensor.datatype)).reshape(tensor.shape)
