"""Traces of requests: which ones are kept and where they go."""

from typing import Annotated, Literal

from pydantic import Field

from spec.settings.fields import OtlpEndpoint, between
from spec.settings.section import Section


class Tracing(Section):
    """The collector and what Triton sends it. Absent: neither.

    `rate`: Triton traces one of so many requests, and each that comes with a `traceparent`: all of them behind the gateway.
    Of those, the collector keeps every slow one, every failed one (whose execution failed: with the gateway only), and
    `keep_percent` of the rest. `exporter`: `xray`, in the
    stack's account and region, or `otlp`, to `endpoint`: over HTTP and without headers, so that one that asks for a token
    needs a collector of yours in between.
    """

    exporter: Literal["xray", "otlp"] = Field(description="xray or otlp")
    endpoint: OtlpEndpoint | None = None
    rate: Annotated[int, between(1, 1_000_000, "requests per traced one")] = 100
    keep_percent: Annotated[int, between(0, 100, "percent")] = 5
