"""A small endpoint that accepts OTLP over HTTP and records the spans.

It replaces the OpenTelemetry collector, or is behind it. It accepts only OTLP according to the protocol's own protobuf
messages (opentelemetry-proto), as protobuf or as JSON.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1 import trace_pb2

from tests import http_server

PATH = "/v1/traces"
_IDS = ("traceId", "spanId", "parentSpanId")


@dataclass(frozen=True)
class Span:
    """A span; ids are lower-case hex, `parent_id` is empty for a root. `events` are names in order."""

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    service: str
    failed: bool
    milliseconds: float
    attributes: dict[str, Any]
    events: tuple[str, ...]


class Collector:
    """The accepted spans, and the refused requests."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spans: list[Span] = []
        self._refused: list[str] = []
        self.url = ""

    @property
    def spans(self) -> list[Span]:
        with self._lock:
            return list(self._spans)

    @property
    def refused(self) -> list[str]:
        """Return the requests that were not OTLP, one sentence each."""
        with self._lock:
            return list(self._refused)

    def of_trace(self, trace_id: str) -> list[Span]:
        return [span for span in self.spans if span.trace_id == trace_id]

    def take(self, path: str, content_type: str, body: bytes) -> int:
        """Record the spans of one request, and return the HTTP status of the response."""
        if path != PATH:
            return self._refuse(404, f"{path} is not {PATH}")
        try:
            found = list(_spans(content_type, body))
        except (ValueError, json_format.ParseError) as error:
            return self._refuse(400, f"{content_type}: {error}")
        with self._lock:
            self._spans += found
        return 200

    def _refuse(self, status: int, why: str) -> int:
        with self._lock:
            self._refused.append(why)
        return status


@contextlib.contextmanager
def running_collector() -> Iterator[Collector]:
    """Run a collector on a free loopback port during the context."""
    collector = Collector()

    class Answers(http_server.Handler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.body()
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            content_type = self.headers.get("Content-Type", "").partition(";")[0].strip()
            status = collector.take(self.path, content_type, body)
            answer = b"{}" if content_type == "application/json" else b""
            self.answer(status, answer, content_type=content_type or "application/json")

    with http_server.listening(Answers) as server:
        collector.url = f"{server.url}{PATH}"
        yield collector


def _spans(content_type: str, body: bytes) -> Iterator[Span]:
    request = ExportTraceServiceRequest()
    if content_type == "application/json":
        json_format.ParseDict(_with_base64_ids(json.loads(body)), request)
    elif content_type == "application/x-protobuf":
        request.MergeFromString(body)
    else:
        raise ValueError("is not a content type of OTLP over HTTP")
    for resource in request.resource_spans:
        origin = {pair.key: _value(pair.value) for pair in resource.resource.attributes}
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield Span(
                    trace_id=span.trace_id.hex(),
                    span_id=span.span_id.hex(),
                    parent_id=span.parent_span_id.hex(),
                    name=span.name,
                    service=str(origin.get("service.name", "")),
                    failed=span.status.code == trace_pb2.Status.STATUS_CODE_ERROR,
                    milliseconds=(span.end_time_unix_nano - span.start_time_unix_nano) / 1e6,
                    attributes={pair.key: _value(pair.value) for pair in span.attributes},
                    events=tuple(event.name for event in span.events),
                )


def _with_base64_ids(node: Any) -> Any:
    """Convert ids: OTLP writes hex, protobuf's own JSON has base64."""
    if isinstance(node, list):
        return [_with_base64_ids(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {
        key: base64.b64encode(bytes.fromhex(value)).decode()
        if key in _IDS and isinstance(value, str)
        else _with_base64_ids(value)
        for key, value in node.items()
    }


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    return getattr(value, kind) if kind else None
