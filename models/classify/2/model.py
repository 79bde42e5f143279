"""Recalibrated: the weights of version 1 at half the scale and without its bias towards the later classes."""

import numpy as np
import triton_python_backend_utils as pb_utils

FEATURES, CLASSES = 4, 3

# Eighths between -3/8 and 3/8 and no bias: every score is exact in float32.
_feature, _class = np.indices((FEATURES, CLASSES))
WEIGHTS = (((5 * _feature + 3 * _class) % 7 - 3) / 8).astype(np.float32)


class TritonPythonModel:
    def execute(self, requests):
        """One response per request; the whole batch that Triton collected is computed in one step."""
        batches = [pb_utils.get_input_tensor_by_name(r, "NORMALIZED").as_numpy() for r in requests]
        scores = np.concatenate(batches) @ WEIGHTS
        parts = np.split(scores, np.cumsum([len(batch) for batch in batches])[:-1])
        return [self._response(part) for part in parts]

    @staticmethod
    def _response(scores):
        classes = scores.argmax(axis=1, keepdims=True).astype(np.int32)
        return pb_utils.InferenceResponse([pb_utils.Tensor("SCORES", scores), pb_utils.Tensor("CLASS", classes)])
