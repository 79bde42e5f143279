"""Brings texts that differ in case and blanks only to one spelling."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        """One response per request. A text that is not UTF-8 fails its own request, not the batch that it came in."""
        return [self._response(pb_utils.get_input_tensor_by_name(r, "TEXT").as_numpy()) for r in requests]

    @staticmethod
    def _response(texts):
        try:
            clean = [" ".join(text.decode().lower().split()).encode() for text in texts.ravel()]
        except UnicodeDecodeError as error:
            message = f"TEXT is not UTF-8: byte {error.start} is {error.object[error.start]:#04x}"
            return pb_utils.InferenceResponse(error=pb_utils.TritonError(message, pb_utils.TritonError.INVALID_ARG))
        tensor = pb_utils.Tensor("CLEAN", np.array(clean, dtype=np.object_).reshape(texts.shape))
        return pb_utils.InferenceResponse([tensor])
