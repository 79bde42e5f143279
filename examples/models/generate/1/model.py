"""Repeats the words of the prompt in a circle, one response each, until WORDS are out or the client has gone."""

import itertools
import time

import numpy as np
import triton_python_backend_utils as pb_utils

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
SECONDS_PER_WORD = 0.01
"""The time that a language model takes for a token.

Without the pause server 2.51 crashes now and then when a client leaves in the very moment of a response
(triton-inference-server/server#7368, mended after that release by pull request 7840).
"""


class TritonPythonModel:
    def execute(self, requests):
        """Returns nothing: a decoupled model answers through each request's sender."""
        for request in requests:
            self._generate(request, request.get_response_sender())

    @staticmethod
    def _generate(request, sender):
        prompt = pb_utils.get_input_tensor_by_name(request, "PROMPT").as_numpy()[0].split()
        wanted = int(pb_utils.get_input_tensor_by_name(request, "WORDS").as_numpy()[0])
        if not prompt or wanted < 1:
            problem = "PROMPT has no word" if not prompt else f"WORDS is {wanted}; at least 1"
            error = pb_utils.TritonError(problem, pb_utils.TritonError.INVALID_ARG)
            sender.send(pb_utils.InferenceResponse(error=error), flags=FINAL)
            return
        for number, word in enumerate(itertools.islice(itertools.cycle(prompt), wanted), start=1):
            time.sleep(SECONDS_PER_WORD)
            # Nobody reads on: the next request's turn. A request that never gets its final flag is kept for ever.
            if sender.is_cancelled():
                sender.send(flags=FINAL)
                return
            response = pb_utils.InferenceResponse([pb_utils.Tensor("WORD", np.array([word], dtype=np.object_))])
            # The flag goes with the last word, so that a client can tell a whole answer from a stream that broke.
            sender.send(response, flags=FINAL if number == wanted else 0)
