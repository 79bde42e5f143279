"""Receive mirrored requests on Triton's ports, and return empty responses at once, because the sender ignores them."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

import grpc
from google.protobuf.message import DecodeError
from tritonclient.grpc.service_pb2 import ModelInferRequest

from modelctl.metrics_server import WrongAddress
from modelctl.rollout.copies.asked import INFER, KEPT_HEADERS, Copy
from modelctl.rollout.copies.comparer import LARGEST_COPY, Comparer

_PATH = re.compile(r"/v2/models/([^/]+)(?:/versions/[0-9]+)?/infer")
_AT_ONCE = 16
_LONGEST_LINE = 65536


@contextmanager
def http(comparer: Comparer, option: str, host: str, port: int) -> Iterator[int]:
    """Receive copies over HTTP while the context is open; yield the port. Raises WrongAddress, which names the option."""

    class Handler(_Handler):
        copies = comparer

    try:
        server = (_Server6 if ":" in host else _Server)((host, port), Handler)
    except OSError as error:
        raise _cannot_listen(option, host, port, error.strerror or str(error)) from None
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def over_grpc(comparer: Comparer, option: str, host: str, port: int) -> Iterator[int]:
    """Receive copies over gRPC while the context is open; yield the port. Raises WrongAddress, which names the option."""
    options = (("grpc.max_receive_message_length", LARGEST_COPY), ("grpc.so_reuseport", 0))
    # Each thread reads one message, so at most that many are in memory; the others wait in their connections.
    server = grpc.server(ThreadPoolExecutor(_AT_ONCE), handlers=[_Inferences(comparer)], options=options)
    try:
        bound = server.add_insecure_port(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    except RuntimeError:
        bound = 0
    if not bound:
        raise _cannot_listen(option, host, port, "nothing can listen there")
    server.start()
    try:
        yield bound
    finally:
        server.stop(None).wait()


def _cannot_listen(option: str, host: str, port: int, why: str) -> WrongAddress:
    return WrongAddress(f"{option} {host}:{port}: {why}; write an address and a free port of this machine")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


class _Server6(_Server):
    address_family = socket.AF_INET6


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    copies: Comparer

    def do_POST(self) -> None:
        """Receive an inference request.

        Close the connection on any other request and on a copy without room, so its body is not read.
        """
        path = self.path.partition("?")[0]
        match = _PATH.fullmatch(path)
        model = unquote(match[1]) if match is not None else ""
        if not self.copies.compares(model):
            self._end(404)
            return
        chunked = self.headers.get("Transfer-Encoding", "").lower() == "chunked"
        length = self.headers.get("Content-Length", "")
        if not chunked and not length.isdecimal():
            self._end(411)
            return
        size = LARGEST_COPY if chunked else int(length)
        if not self.copies.reserve(model, size):
            self._end(503)
            return
        body = self._chunks() if chunked else self.rfile.read(size)
        if body is None or (not chunked and len(body) < size):
            self.copies.lose(model, size)
            self._end(400)
            return
        headers = {name: self.headers[name] for name in KEPT_HEADERS if name in self.headers}
        self.copies.add(Copy(model, body, path, headers), size)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Log nothing; the command writes the log."""

    def _end(self, status: int) -> None:
        self.close_connection = True
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.send_header("Connection", "close")
        self.end_headers()

    def _chunks(self) -> bytes | None:
        """Return the body of a chunked request; None if it is too large or broken."""
        parts: list[bytes] = []
        left = LARGEST_COPY
        try:
            while size := int(self.rfile.readline(_LONGEST_LINE).partition(b";")[0], 16):
                left -= size
                if left < 0:
                    return None
                parts.append(self.rfile.read(size))
                self.rfile.readline(_LONGEST_LINE)
        except ValueError:
            return None
        while self.rfile.readline(_LONGEST_LINE).strip():  # trailers
            continue
        return b"".join(parts)


class _Inferences(grpc.GenericRpcHandler):
    def __init__(self, comparer: Comparer) -> None:
        self._comparer = comparer

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        """Accept only ModelInfer, because a streaming method has no single response to compare."""
        return grpc.unary_unary_rpc_method_handler(self._take) if details.method == INFER else None

    def _take(self, message: bytes, context: grpc.ServicerContext) -> bytes:
        try:
            model = ModelInferRequest.FromString(message).model_name
        except DecodeError:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "this is no ModelInferRequest")
        if not self._comparer.compares(model):
            context.abort(grpc.StatusCode.NOT_FOUND, "copies of this model are not compared")
        if self._comparer.reserve(model, len(message)):
            self._comparer.add(Copy(model, message), len(message))
        return b""
