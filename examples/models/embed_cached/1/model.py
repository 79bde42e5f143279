"""A text's vector: how often each of eight classes of letters occurs in it. Exact, so that tests can ask for equality."""

import numpy as np
import triton_python_backend_utils as pb_utils

WIDTH = 8


class TritonPythonModel:
    def execute(self, requests):
        """One response per request, each for a batch of texts."""
        return [self._response(pb_utils.get_input_tensor_by_name(r, "TEXT").as_numpy()) for r in requests]

    @staticmethod
    def _response(texts):
        vectors = np.stack([np.bincount(np.frombuffer(t, np.uint8) % WIDTH, minlength=WIDTH) for t in texts.ravel()])
        return pb_utils.InferenceResponse([pb_utils.Tensor("VECTOR", vectors.astype(np.float32))])
