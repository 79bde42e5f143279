"""A fake Prometheus whose values a test sets, and which a test can stop."""

from __future__ import annotations

import functools
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from twin.host import ports

ADDRESS = "10.244.250.7"
"""A pod's address in the cluster; on this machine its server listens on 127.244.250.7."""


class Prometheus:
    """A fake that answers instant queries: `busy` for the tested query, 0 for all others; None: no element at all.

    `refused` is the value for the requests that Envoy answers itself.
    """

    def __init__(self) -> None:
        self.busy: str | None = "0"
        self.refused: str | None = "0"
        self.address = ADDRESS.replace("10.", "127.", 1)
        self.port = next(port for port in range(19090, 19190) if ports.is_free(self.address, port))
        self._server: ThreadingHTTPServer | None = None

    def start(self) -> None:
        self._server = ThreadingHTTPServer((self.address, self.port), functools.partial(_Answer, self))
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        """Refuse connections from now on."""
        assert self._server is not None
        self._server.shutdown()
        self._server.server_close()


class _Answer(BaseHTTPRequestHandler):
    def __init__(self, prometheus: Prometheus, *connection: Any) -> None:
        self.prometheus = prometheus
        super().__init__(*connection)

    def do_GET(self) -> None:
        assert self.path.startswith("/api/v1/query?query=")
        value = self.prometheus.busy if "needed" in self.path else self.prometheus.busy and "0"
        if "rq_direct_response" in self.path:
            value = self.prometheus.refused
        elements = [{"metric": {}, "value": [time.time(), value]}] if value is not None else []
        content = json.dumps({"status": "success", "data": {"resultType": "vector", "result": elements}}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: pytest does not need it."""
