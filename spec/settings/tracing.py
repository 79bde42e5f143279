"""Traces of requests, their sampling and their destination: `triton-eks:tracing`."""

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from spec.charts import OPENTELEMETRY_COLLECTOR, ChartPin
from spec.problem import Problem
from spec.settings.addresses import OtlpEndpoint
from spec.settings.kind import between
from spec.settings.rule import Place, rule
from spec.settings.section import Section


class Tracing(Section):
    """The collector of traces, and the traces that Triton sends to it.

    The collector keeps every slow trace and a share of the rest. With the gateway it also keeps every trace of a request
    whose execution failed.
    """

    guide: ClassVar[str] = "docs/traffic.md"

    exporter: Literal["xray", "otlp"] = Field(description="xray or otlp")
    endpoint: OtlpEndpoint | None = Field(
        default=None,
        description="where exporter otlp sends traces, over HTTP and without headers (one that asks for a token needs a "
        "collector of yours in between); required with it, else forbidden: xray is in the stack's account and region",
    )
    keep_percent: Annotated[int, between(0, 100, "percent")] = Field(
        default=5, description="the part of the traces that is kept although they are neither slow nor failed"
    )

    @property
    def installs(self) -> tuple[ChartPin, ...]:
        """Return the chart of the collector."""
        return (OPENTELEMETRY_COLLECTOR,)

    @rule
    def _spans_go_to_one_place(self, at: Place) -> Iterator[Problem]:
        """Require an endpoint with exporter otlp, and refuse it with xray."""
        if self.exporter == "otlp" and self.endpoint is None:
            yield at.problem("endpoint", "is missing; exporter otlp needs one, like https://otlp.example.com:4318")
        if self.exporter == "xray" and self.endpoint is not None:
            yield at.problem("endpoint", "is of exporter otlp and exporter is xray; remove it, or use exporter: otlp")

    @rule
    def _spans_are_encrypted(self, at: Place) -> Iterator[Problem]:
        """Require https except in local and dev. Span attributes reveal the model, the request and the client."""
        if self.endpoint is not None and at.environment not in ("local", "dev") and self.endpoint.startswith("http://"):
            yield at.problem("endpoint", f"{self.endpoint} is not encrypted; use https in {at.stack}")
