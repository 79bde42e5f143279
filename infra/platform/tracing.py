"""Traces: an OpenTelemetry collector that keeps slow and failed traces, and a small share of the rest."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pulumi

from infra.aws.cluster_access import ClusterAccess
from infra.aws.identity import WorkloadRoleArgs
from infra.platform import pod_identity
from infra.platform.installed_chart import InstalledChart, chart_values, custom_resource
from spec.charts import OPENTELEMETRY_COLLECTOR
from spec.iam_policy import allow, document
from spec.names import GATEWAY_NAMESPACE, OTLP_GRPC_PORT, OTLP_HTTP_PORT, TRACE_COLLECTOR, TRACE_COLLECTOR_SERVICE
from spec.settings import Settings
from spec.settings.serving import ModelServing
from spec.settings.tracing import Tracing

_SENDING_SECONDS = 10
"""Triton and Envoy send ended spans every few seconds, not each at once."""
_ASSUMED_SLO_MS = 1000
_FEWEST_TRACES = 10_000
_POD_IP = "${env:MY_POD_IP}"
_MODEL = "triton.model_name"
_ANSWERED = "triton.answered"

# Triton marks no span as failed. The span of a request that it refused has no REQUEST_END (observed on a real server,
# tests/system/serving/test_tracing.py). A request that waited too long has one, and is kept because it is slow. A failed
# execution looks like any other; only Envoy's span shows it.
_FIND_REFUSED: list[dict[str, Any]] = [
    {
        "context": "spanevent",
        "statements": [f'set(span.attributes["{_ANSWERED}"], true) where spanevent.name == "REQUEST_END"'],
    },
    {
        "context": "span",
        "statements": [
            f'set(span.status.code, STATUS_CODE_ERROR) where span.attributes["{_MODEL}"] != nil '
            f'and span.attributes["triton.trace_id"] != nil and span.attributes["{_ANSWERED}"] == nil',
            f'delete_key(span.attributes, "{_ANSWERED}")',
        ],
    },
]


class Collector(InstalledChart):
    """The pinned chart and, for X-Ray, a role that may only write traces.

    `longest_answer_seconds` is the longest time to a response of any model, for a stream to its first response. With a
    gateway, `opts.depends_on` has to name it: its chart installs the kind of the grant that lets Envoy's settings name the
    collector.
    """

    def __init__(
        self,
        name: str,
        cluster: ClusterAccess,
        settings: Settings,
        tracing: Tracing,
        *,
        longest_answer_seconds: int,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("triton:platform:Collector", name, cluster, opts)
        namespace = self._namespace(TRACE_COLLECTOR.namespace, "restricted")
        before: list[pulumi.Resource] = [namespace]
        if tracing.exporter == "xray":
            args = WorkloadRoleArgs("The collector writes traces", TRACE_COLLECTOR, policy=xray_policy())
            before.append(self._role(f"{name}-xray", args))
        config = collector_config(tracing, settings.models.serving, longest_answer_seconds, settings.region)
        chart = values(config, to_xray=tracing.exporter == "xray")
        self._install(OPENTELEMETRY_COLLECTOR, TRACE_COLLECTOR.namespace, chart, *before)
        if settings.gateway is not None:
            custom_resource(
                f"{name}-grant",
                {
                    "apiVersion": "gateway.networking.k8s.io/v1",
                    "kind": "ReferenceGrant",
                    "metadata": {"name": "gateway", "namespace": TRACE_COLLECTOR.namespace},
                    "spec": grant_spec(),
                },
                self._after(namespace),
            )
        self.register_outputs({})


def install_collector(
    cluster: ClusterAccess, settings: Settings, *, longest_answer_seconds: int, after: Sequence[pulumi.Resource]
) -> None:
    """Install the collector if the stack has tracing. `after` contains the gateway, if there is one."""
    if settings.tracing is None:
        return
    Collector(
        "collector",
        cluster,
        settings,
        settings.tracing,
        longest_answer_seconds=longest_answer_seconds,
        opts=pulumi.ResourceOptions(depends_on=list(after)),
    )


def grant_spec() -> dict[str, Any]:
    """Return the grant that lets the gateway name the collector's Service in another namespace."""
    return {
        "from": [{"group": "gateway.envoyproxy.io", "kind": "EnvoyProxy", "namespace": GATEWAY_NAMESPACE}],
        "to": [{"group": "", "kind": "Service", "name": TRACE_COLLECTOR_SERVICE}],
    }


def xray_policy() -> str:
    """Return the permission to write traces. X-Ray has no resources to restrict it to."""
    return document(allow(["xray:PutTraceSegments", "xray:PutTelemetryRecords"], ["*"], sid="WriteTraces"))


def values(config: Mapping[str, Any], *, to_xray: bool) -> dict[str, Any]:
    """Return the chart's values.

    `alternateConfig` replaces the chart's own configuration. `config` would be merged into it, and keep the receivers of
    Jaeger, Zipkin and Prometheus and pipelines without a useful exporter.
    """
    computed: dict[str, Any] = {
        "alternateConfig": dict(config),
        "serviceAccount": {"create": True, "name": TRACE_COLLECTOR.name},
    }
    if to_xray:
        computed |= {"extraEnvs": pod_identity.environment(), **pod_identity.extra()}
    return chart_values(OPENTELEMETRY_COLLECTOR, computed)


def collector_config(
    tracing: Tracing, serving: Mapping[str, ModelServing], longest_answer_seconds: int, region: str
) -> dict[str, Any]:
    """Return the collector's configuration."""
    exporter, settings = _exporter(tracing, region)
    return {
        "extensions": {"health_check": {"endpoint": f"{_POD_IP}:13133"}},
        "receivers": {
            "otlp": {
                "protocols": {
                    "grpc": {"endpoint": f"{_POD_IP}:{OTLP_GRPC_PORT}"},
                    "http": {"endpoint": f"{_POD_IP}:{OTLP_HTTP_PORT}"},
                }
            }
        },
        "processors": {
            "memory_limiter": {"check_interval": "1s", "limit_percentage": 80, "spike_limit_percentage": 20},
            # A failed statement costs only the mark, not the span.
            "transform/refused": {"error_mode": "ignore", "trace_statements": _FIND_REFUSED},
            "tail_sampling": tail_sampling(tracing, serving, longest_answer_seconds),
            "batch": {"send_batch_size": 512, "send_batch_max_size": 1024, "timeout": "5s"},
        },
        "exporters": {exporter: settings},
        "service": {
            "extensions": ["health_check"],
            "pipelines": {
                "traces": {
                    "receivers": ["otlp"],
                    # In this order: the memory limit is checked first, and only kept spans are batched.
                    "processors": ["memory_limiter", "transform/refused", "tail_sampling", "batch"],
                    "exporters": [exporter],
                }
            },
            "telemetry": {
                "metrics": {
                    "readers": [{"pull": {"exporter": {"prometheus": {"host": _POD_IP, "port": 8888}}}}],
                }
            },
        },
    }


def tail_sampling(tracing: Tracing, serving: Mapping[str, ModelServing], longest_answer_seconds: int) -> dict[str, Any]:
    """Return the sampling policies: keep failed traces, traces slower than their model's SLO, and a percentage of the rest.

    A model without an entry counts as slow above the slowest SLO. A trace is held until its last span can have arrived, in
    memory for twice the peak rate. Streams are not held to their end, because one model's streams would multiply the held
    traces of all models.
    """
    wait = longest_answer_seconds + _SENDING_SECONDS
    peak = sum(model.peak_rate for model in serving.values())
    slowest = max((model.slo_p95_ms for model in serving.values()), default=_ASSUMED_SLO_MS)
    failed = [
        {"name": "failed", "type": "status_code", "status_code": {"status_codes": ["ERROR"]}},
        # Envoy's marker for gRPC, where the HTTP status is 200.
        {
            "name": "failed-at-the-gateway",
            "type": "string_attribute",
            "string_attribute": {"key": "error", "values": ["true"]},
        },
    ]
    slow = [_slow(name, serving[name].slo_p95_ms) for name in sorted(serving)]
    others = {"name": "slow", "type": "latency", "latency": {"threshold_ms": slowest}}
    rest = {"name": "rest", "type": "probabilistic", "probabilistic": {"sampling_percentage": tracing.keep_percent}}
    return {
        "decision_wait": f"{wait}s",
        "num_traces": max(_FEWEST_TRACES, 2 * math.ceil(peak * wait)),
        "expected_new_traces_per_sec": max(1, math.ceil(peak)),
        "policies": [*failed, *slow, others, *([rest] if tracing.keep_percent else [])],
    }


def _slow(model: str, slo_ms: int) -> dict[str, Any]:
    return {
        "name": f"slow-{model}",
        "type": "and",
        "and": {
            "and_sub_policy": [
                {"name": "model", "type": "string_attribute", "string_attribute": {"key": _MODEL, "values": [model]}},
                {"name": "slow", "type": "latency", "latency": {"threshold_ms": slo_ms}},
            ]
        },
    }


def _exporter(tracing: Tracing, region: str) -> tuple[str, dict[str, Any]]:
    """Return name and settings of the exporter."""
    if tracing.exporter == "xray":
        return "awsxray", {"region": region, "indexed_attributes": [_MODEL]}
    # The exporter appends /v1/traces to `endpoint`, but not to `traces_endpoint`.
    endpoint = (tracing.endpoint or "").rstrip("/")
    return "otlp_http", {"traces_endpoint" if endpoint.endswith("/v1/traces") else "endpoint": endpoint}
