"""The sum of each row, after the time that config.pbtxt says a batch of this size takes."""

import json
import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        parameters = json.loads(args["model_config"])["parameters"]
        self.batch_seconds = float(parameters["batch_ms"]["string_value"]) / 1000
        self.row_seconds = float(parameters["row_ms"]["string_value"]) / 1000

    def execute(self, requests):
        """One response per request; the batch that Triton collected takes one wait, as it would take one launch."""
        batches = [pb_utils.get_input_tensor_by_name(r, "VALUES").as_numpy() for r in requests]
        time.sleep(self.batch_seconds + self.row_seconds * sum(len(batch) for batch in batches))
        return [pb_utils.InferenceResponse([pb_utils.Tensor("SUM", _sums(batch))]) for batch in batches]


def _sums(batch):
    return batch.sum(axis=1, keepdims=True, dtype=np.float32)
