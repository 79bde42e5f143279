"""Adds up the values of each sequence.

An ended sequence is forgotten at once. The server does not tell a model that a sequence has been idle for too long, so
the least recently used one is forgotten when a new one finds all slots taken: the server has at most one living sequence
per slot, so the one that has been silent for longest is dead by then.
"""

import json
from collections import OrderedDict

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        """One slot per place in a batch (strategy `direct`)."""
        self.slots = json.loads(args["model_config"])["max_batch_size"]
        self.sums = OrderedDict()

    def execute(self, requests):
        """One response per request; each request is one slot's."""
        return [self._response(request) for request in requests]

    def _response(self, request):
        if not _value(request, "READY"):
            return pb_utils.InferenceResponse([pb_utils.Tensor("SUM", np.zeros((1, 1), dtype=np.int64))])
        sequence = _value(request, "CORRID")
        if _value(request, "START"):
            self.sums.pop(sequence, None)
            while len(self.sums) >= self.slots:
                self.sums.popitem(last=False)
            self.sums[sequence] = 0
        self.sums[sequence] += _value(request, "VALUE")
        self.sums.move_to_end(sequence)
        total = self.sums.pop(sequence) if _value(request, "END") else self.sums[sequence]
        return pb_utils.InferenceResponse([pb_utils.Tensor("SUM", np.array([[total]], dtype=np.int64))])


def _value(request, name):
    return int(pb_utils.get_input_tensor_by_name(request, name).as_numpy().item())
