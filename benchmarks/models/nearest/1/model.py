"""The ten nearest vectors of a database that is kept in half precision: widened once a batch, ranked per request."""

import numpy as np
import triton_python_backend_utils as pb_utils

VECTORS, FEATURES, NEAREST, BLOCK = 80_000, 64, 10, 4000


class TritonPythonModel:
    def initialize(self, _arguments):
        source = np.random.default_rng(2)
        self._vectors = source.standard_normal((VECTORS, FEATURES), dtype=np.float32).astype(np.float16)
        self._block = np.empty((BLOCK, FEATURES), np.float32)

    def execute(self, requests):
        """One response per request; every block of the database is widened once for all of them."""
        batches = [pb_utils.get_input_tensor_by_name(r, "QUERY").as_numpy() for r in requests]
        queries = np.concatenate(batches)
        scores = np.empty((len(queries), VECTORS), np.float32)
        for row in range(0, VECTORS, BLOCK):
            np.copyto(self._block, self._vectors[row : row + BLOCK])
            for query, into in zip(queries, scores, strict=True):
                np.dot(self._block, query, out=into[row : row + BLOCK])
        nearest = np.stack([np.argsort(row)[: -NEAREST - 1 : -1] for row in scores]).astype(np.int32)
        parts = np.split(nearest, np.cumsum([len(batch) for batch in batches])[:-1])
        return [pb_utils.InferenceResponse([pb_utils.Tensor("NEAREST", part)]) for part in parts]
