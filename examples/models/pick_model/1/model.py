"""Asks embed_cached about a query and embed_long about a document, and says in MODEL which one answered.

A callee's error arrives here without its code, always as INTERNAL (measured on 2.51;
triton-inference-server/server#7804). So the caller's mistakes are refused here, before the call, and whatever still
fails is not the caller's fault: when embed_long fails (unloaded, full queue, a crash), the first line, asked of
embed_cached, stands for the document, and MODEL says so. When embed_cached fails there is nobody left to ask: the error
goes back with its name.
"""

import numpy as np
import triton_python_backend_utils as pb_utils

LONGEST_QUERY = 64
"""Bytes. What is longer, or has several lines, is a document."""
LONGEST_DOCUMENT = 4096
"""Bytes: what embed_long takes."""


class TritonPythonModel:
    async def execute(self, requests):
        """One response per request."""
        return [await _answer(pb_utils.get_input_tensor_by_name(r, "TEXT").as_numpy()[0]) for r in requests]


async def _answer(text):
    if len(text) > LONGEST_DOCUMENT:
        message = f"TEXT has {len(text)} bytes; at most {LONGEST_DOCUMENT}"
        return pb_utils.InferenceResponse(error=pb_utils.TritonError(message, pb_utils.TritonError.INVALID_ARG))
    first_line, several, _ = text.partition(b"\n")
    if not several and len(text) <= LONGEST_QUERY:
        return await _embed_query(text)
    called = await _call("embed_long", np.array([text], dtype=np.object_))
    if not called.has_error():
        return _response(called, "embed_long")
    pb_utils.Logger.log_warn(f"pick_model: embed_long failed, embed_cached stands in: {called.error().message()}")
    return await _embed_query(first_line)


async def _embed_query(text):
    called = await _call("embed_cached", np.array([[text]], dtype=np.object_))
    if called.has_error():
        message = f"embed_cached: {called.error().message()}"
        return pb_utils.InferenceResponse(error=pb_utils.TritonError(message, pb_utils.TritonError.INTERNAL))
    return _response(called, "embed_cached")


async def _call(model, texts):
    request = pb_utils.InferenceRequest(
        model_name=model, inputs=[pb_utils.Tensor("TEXT", texts)], requested_output_names=["VECTOR"]
    )
    return await request.async_exec()


def _response(called, model):
    vector = pb_utils.get_output_tensor_by_name(called, "VECTOR").as_numpy().reshape(-1)
    name = np.array([model.encode()], dtype=np.object_)
    return pb_utils.InferenceResponse([pb_utils.Tensor("VECTOR", vector), pb_utils.Tensor("MODEL", name)])
