"""Error budgets at the gateway: all client requests, and the requests that were answered correctly and in time.

Unlike Triton, the gateway sees requests that a full queue refuses, that wait for a connection or a retry, that find no pod,
and that a rate limit refuses (429). Envoy counts the last two for all models together, so they are only in the budget of
`every model`.

`spec.prometheus.slo` covers data that only Triton has: errors within a stream, and requests that bypass the gateway.
"""

from __future__ import annotations

from collections.abc import Iterator

from spec import objectives
from spec.names import ALL_MODELS_ROUTE, GATEWAY_NAMESPACE, TRITON_NAMESPACE
from spec.prometheus.budgets import INTERVAL_SECONDS, WINDOWS, burns, share
from spec.prometheus.gateway import JOB, answered_without_a_pod, attempts, calls, rate_limited
from spec.prometheus.rule import Group, Rule, alert, group, record, series
from spec.route_names import object_name
from spec.settings.model import Settings
from spec.settings.serving import ModelServing

ALL = "every model"
"""The `model` label of all requests together; no model can have this name."""
RATE_LIMITED, NO_POD = "rate limited", "no pod"
GRPC_FAILURES = ("2", "13", "14")
"""UNKNOWN, INTERNAL and UNAVAILABLE: the statuses of Triton and Envoy for failures that the client did not cause."""
LIMITED_SHARE = 0.01

_ANSWERS, _FAILURES = "gateway:triton_answers:rate5m", "gateway:triton_failures:rate5m"
REQUESTS = "gateway_model:triton_requests:rate5m"
BAD = "gateway_model:triton_failed_requests:rate5m"
LATE = "gateway_model:triton_late_requests:rate5m"
BAD_RATIO, LATE_RATIO = "gateway_model:triton_failed_requests:ratio_", "gateway_model:triton_late_requests:ratio_"
_TOTALS: tuple[tuple[str, dict[str, str]], ...] = (("sum by (namespace, model)", {}), ("sum by (namespace)", {"model": ALL}))
_SLO = "gateway_model:triton_slo_p95_ms"
_TIME = "envoy_cluster_upstream_rq_time"


def answered_at_gateway(serving: ModelServing) -> bool:
    """Return whether Envoy sees each response of a model. Streams carry responses in messages, which no counter reads."""
    return not serving.decoupled and serving.sequence is None


def objectives_ms(settings: Settings) -> dict[str, int]:
    """Return the p95 of each route for which Envoy sees every response; none without a gateway.

    A request without a model header may be for any model, so its p95 is the longest of all.
    """
    if settings.gateway is None:
        return {}
    serving = settings.models.serving
    seen = {object_name(model): want.slo_p95_ms for model, want in sorted(serving.items()) if answered_at_gateway(want)}
    if seen and len(seen) == len(serving):
        seen[ALL_MODELS_ROUTE] = max(seen.values())
    return seen


def gateway_slo_groups(settings: Settings) -> list[Group]:
    """Return the recording rules and alerts of the budgets; none without a gateway or without an SLO."""
    slos = objectives_ms(settings)
    if not slos:
        return []
    recordings = [
        record(_ANSWERS, _by_model(attempts(), reads=False), {"protocol": "http"}),
        record(_ANSWERS, _by_model(calls("total")), {"protocol": "grpc"}),
        record(_FAILURES, _by_model(attempts("5"), reads=False), {"protocol": "http"}),
        *(record(_FAILURES, _by_model(calls(code)), {"protocol": "grpc", "status": code}) for code in GRPC_FAILURES),
        *(
            record(name, f"sum(rate({counted}[5m]))", {"namespace": TRITON_NAMESPACE, "model": model})
            for model, counted in _without_a_model(settings).items()
            for name in (_ANSWERS, _FAILURES)
        ),
        *(record(REQUESTS, f"{total} ({_ANSWERS})", labels) for total, labels in _TOTALS),
        *(record(BAD, f"{total} ({_FAILURES})\nor 0 * {total} ({_ANSWERS})", labels) for total, labels in _TOTALS),
        *(rule for route, slo_ms in slos.items() for rule in _late(route, slo_ms)),
        *(record(f"{BAD_RATIO}{window}", share(BAD, REQUESTS, window)) for window in WINDOWS),
        *(record(f"{LATE_RATIO}{window}", share(LATE, REQUESTS, window)) for window in WINDOWS),
    ]
    return [
        group("triton.gateway.slo.recording", recordings, interval=f"{INTERVAL_SECONDS}s"),
        group("triton.gateway.slo.alerts", _alerts([*slos])),
    ]


def _alerts(routes: list[str]) -> list[Rule]:
    allowed, late = 1 - objectives.AVAILABILITY, 1 - objectives.LATENCY
    slo_ms = f'{{{{ with printf "{_SLO}{{model=%q}}" $labels.model | query }}}}{{{{ . | first | value }}}}{{{{ end }}}} ms'
    limited, everything = series(REQUESTS, model=RATE_LIMITED), series(REQUESTS, model=ALL)
    return [
        *burns(
            "TritonGatewayAvailabilityBudgetBurn",
            [ALL, *routes],
            BAD_RATIO,
            BAD,
            allowed,
            summary="Requests to the gateway for {{ $labels.model }} fail: {{ $value | humanizePercentage }}",
            description="Of the requests that clients sent for {{ $labels.model }}, {{ $value | humanizePercentage }} "
            f"failed, where {allowed:.1%} may. Those for every model include what a rate limit refused.",
        ),
        *burns(
            "TritonGatewayLatencyBudgetBurn",
            routes,
            LATE_RATIO,
            LATE,
            late,
            summary=f"{{{{ $labels.model }}}} is slow at the gateway: {{{{ $value | humanizePercentage }}}} over {slo_ms}",
            description="Of the requests that clients sent for {{ $labels.model }}, {{ $value | humanizePercentage }} "
            f"failed or were answered after more than {slo_ms}, where {late:.0%} may.",
        ),
        alert(
            "TritonRateLimited",
            f"sum by (namespace) ({limited})\n/ sum by (namespace) ({everything} > 0)\n> {LIMITED_SHARE:g}",
            lasting="5m",
            severity="warning",
            summary="The gateway refuses {{ $value | humanizePercentage }} of all requests by a rate limit",
            description="Clients send more than peakRate and three standard deviations in a second, or more than their own "
            "requestsPerSecond, and get 429 or UNAVAILABLE. Triton sees none of these requests.",
        ),
    ]


def _late(route: str, slo_ms: int) -> Iterator[Rule]:
    """Record the requests of a route that failed or exceeded its SLO; a slow failure may be counted twice."""
    kinds = "grpc" if route == ALL_MODELS_ROUTE else "(http|grpc)"
    rule = "0" if route == ALL_MODELS_ROUTE else "[^-]+"
    matchers = [f'namespace="{GATEWAY_NAMESPACE}"', f'job="{JOB}"']
    matchers.append(f'envoy_cluster_name=~"{kinds}route/{TRITON_NAMESPACE}/{route}/rule/{rule}"')
    timed = f"sum(rate({_TIME}_count{{{','.join(matchers)}}}[5m]))"
    matchers.append(f'le=~"{slo_ms}([.]0)?"')
    in_time = f"sum(rate({_TIME}_bucket{{{','.join(matchers)}}}[5m]))"
    failed, sent = series(BAD, model=route), series(REQUESTS, model=route)
    good = f"{sent}\n  - on () group_left () ({timed}\n    - {in_time})\n  - {failed}"
    labels = {"namespace": TRITON_NAMESPACE, "model": route}
    yield record(LATE, f"{sent} - clamp_min({good}, 0)", labels)
    yield record(_SLO, f"vector({slo_ms})", labels)


def _by_model(counter: str, *, reads: bool = True) -> str:
    """Return the rate of a counter by route, as the label `model`. If `reads` is false, leave out the read-only route."""
    pattern = f"(http|grpc)route/{TRITON_NAMESPACE}/([^/]+)/rule/.*"
    if not reads:
        counter = counter.replace("}", f',envoy_cluster_name!~"httproute/{TRITON_NAMESPACE}/{ALL_MODELS_ROUTE}/.*"}}')
    named = f'label_replace(rate({counter}[5m]), "model", "$2", "envoy_cluster_name", "{pattern}")'
    return f'sum by (namespace, model) (label_replace({named}, "namespace", "{TRITON_NAMESPACE}", "", ""))'


def _without_a_model(settings: Settings) -> dict[str, str]:
    """Return the counters of requests that Envoy answers before it knows their model; all of them failed.

    A fleet that requests start (minReplicas: 0) answers its first requests with 503 by design.
    """
    counters = {RATE_LIMITED: rate_limited()}
    if not settings.woken_at_gateway:
        counters[NO_POD] = answered_without_a_pod()
    return counters
