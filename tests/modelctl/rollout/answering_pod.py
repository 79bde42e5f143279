"""A pod that answers over HTTP like a Triton whose models are ready, and inferences as a test says. No model is loaded."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from modelctl.rollout.fleet import Pod

FULL = (503, {"error": "Exceeds maximum queue size"})


def out(value: float) -> tuple[int, dict[str, Any]]:
    """The answer of a model of `tests.modelctl.rollout.releases`; 1.0 is the right one."""
    return 200, {"outputs": [{"name": "OUT", "datatype": "FP32", "shape": [1, 1], "data": [value]}]}


@contextlib.contextmanager
def answering_pod(answer: Callable[[str], tuple[int, dict[str, Any]]], name: str = "a") -> Iterator[Pod]:
    """Yields a pod that answers an inference with the status and body that `answer` returns for its path."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(200, b"")

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            status, body = answer(self.path)
            self._send(status, json.dumps(body).encode())

        def _send(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            with contextlib.suppress(BrokenPipeError):  # who asked has not waited
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield Pod(name, f"uid-{name}", http=url, metrics=url, admin_key="k")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
