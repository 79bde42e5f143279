"""Luma in whole numbers: (77 R + 150 G + 29 B) / 256, rounded down."""

import numpy as np
import triton_python_backend_utils as pb_utils

WEIGHTS = np.array([77, 150, 29], dtype=np.uint16)


class TritonPythonModel:
    def execute(self, requests):
        """One response per request."""
        return [self._response(pb_utils.get_input_tensor_by_name(r, "RGB").as_numpy()) for r in requests]

    @staticmethod
    def _response(rgb):
        gray = (rgb @ WEIGHTS >> 8).astype(np.uint8)
        return pb_utils.InferenceResponse([pb_utils.Tensor("GRAY", gray)])
