"""(x - mean) / scale, feature by feature."""

import numpy as np
import triton_python_backend_utils as pb_utils

# Powers of two as scales and dyadic means: every result is exact in float32, so that a test can ask for
# equality.
MEAN = np.array([5.75, 3.0, 3.75, 1.25], dtype=np.float32)
SCALE = np.array([0.5, 0.5, 2.0, 1.0], dtype=np.float32)


class TritonPythonModel:
    def execute(self, requests):
        """One response per request; the whole batch that Triton collected is computed in one step."""
        batches = [pb_utils.get_input_tensor_by_name(r, "FEATURES").as_numpy() for r in requests]
        normalized = (np.concatenate(batches) - MEAN) / SCALE
        parts = np.split(normalized, np.cumsum([len(batch) for batch in batches])[:-1])
        return [pb_utils.InferenceResponse([pb_utils.Tensor("NORMALIZED", part)]) for part in parts]
