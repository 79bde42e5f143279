"""A pod that answers over HTTP like a Triton with ready models; the test sets its inferences. No model is loaded."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from typing import Any

from modelctl.rollout.fleet import Pod
from tests import http_server

FULL = (503, {"error": "Exceeds maximum queue size"})


def out(value: float) -> tuple[int, dict[str, Any]]:
    """Return the answer of a model of `tests.modelctl.rollout.releases`; 1.0 is correct."""
    return 200, {"outputs": [{"name": "OUT", "datatype": "FP32", "shape": [1, 1], "data": [value]}]}


@contextlib.contextmanager
def answering_pod(answer: Callable[[str], tuple[int, dict[str, Any]]], name: str = "a") -> Iterator[Pod]:
    """Yield a pod that answers an inference with the status and body that `answer` returns for its path."""

    class Answers(http_server.Handler):
        def do_GET(self) -> None:
            self.answer(200)

        def do_POST(self) -> None:
            self.body()
            status, body = answer(self.path)
            self.answer(status, json.dumps(body).encode())

    with http_server.listening(Answers) as server:
        yield Pod(name, f"uid-{name}", http=server.url, metrics=server.url, admin_key=lambda: "k")
