"""The mean of the lines' vectors, each as embed_cached makes it."""

import numpy as np
import triton_python_backend_utils as pb_utils

WIDTH = 8
LONGEST = 4096
"""Bytes. A longer text is the caller's mistake: INVALID_ARG, which nobody should try again."""


class TritonPythonModel:
    def execute(self, requests):
        """One response per request."""
        return [self._response(pb_utils.get_input_tensor_by_name(r, "TEXT").as_numpy()[0]) for r in requests]

    @staticmethod
    def _response(text):
        if len(text) > LONGEST:
            message = f"TEXT has {len(text)} bytes; at most {LONGEST}"
            return pb_utils.InferenceResponse(error=pb_utils.TritonError(message, pb_utils.TritonError.INVALID_ARG))
        lines = text.splitlines() or [b""]
        counts = [np.bincount(np.frombuffer(line, np.uint8) % WIDTH, minlength=WIDTH) for line in lines]
        vector = np.mean(counts, axis=0, dtype=np.float32)
        return pb_utils.InferenceResponse([pb_utils.Tensor("VECTOR", vector)])
