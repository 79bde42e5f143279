"""scores = x W + b; class = the index of the highest score."""

import numpy as np
import triton_python_backend_utils as pb_utils

FEATURES, CLASSES = 4, 3

# Quarters between -3/4 and 3/4 and halves as bias: every score is exact in float32.
_feature, _class = np.indices((FEATURES, CLASSES))
WEIGHTS = (((5 * _feature + 3 * _class) % 7 - 3) / 4).astype(np.float32)
BIAS = ((np.arange(CLASSES) - 1) / 2).astype(np.float32)


class TritonPythonModel:
    def execute(self, requests):
        """One response per request; the whole batch that Triton collected is computed in one step."""
        batches = [pb_utils.get_input_tensor_by_name(r, "NORMALIZED").as_numpy() for r in requests]
        scores = np.concatenate(batches) @ WEIGHTS + BIAS
        parts = np.split(scores, np.cumsum([len(batch) for batch in batches])[:-1])
        return [self._response(part) for part in parts]

    @staticmethod
    def _response(scores):
        classes = scores.argmax(axis=1, keepdims=True).astype(np.int32)
        return pb_utils.InferenceResponse([pb_utils.Tensor("SCORES", scores), pb_utils.Tensor("CLASS", classes)])
