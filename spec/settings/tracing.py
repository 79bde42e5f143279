"""Traces of requests, which ones are kept and where they go: `triton-eks:tracing`."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from spec.settings.fields import OtlpEndpoint, between
from spec.settings.section import Section


class Tracing(Section):
    """The collector of traces and what Triton sends it.

    The collector keeps every slow trace, every failed one (whose execution failed: with the gateway only), and a part of
    the rest.
    """

    guide: ClassVar[str] = "docs/traffic.md"

    exporter: Literal["xray", "otlp"] = Field(description="xray or otlp")
    endpoint: OtlpEndpoint | None = Field(
        default=None,
        description="where exporter otlp sends traces, over HTTP and without headers (one that asks for a token needs a "
        "collector of yours in between); required with it, else forbidden: xray is in the stack's account and region",
    )
    rate: Annotated[int, between(1, 1_000_000, "requests per traced one")] = Field(
        default=100,
        description="Triton traces one of so many requests, and each that comes with a traceparent: all of them behind the "
        "gateway",
    )
    keep_percent: Annotated[int, between(0, 100, "percent")] = Field(
        default=5, description="the part of the traces that is kept although they are neither slow nor failed"
    )
