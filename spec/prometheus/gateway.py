"""Failures as the gateway sees them: Triton counts no request that a full queue turned away.

See docs/facts/triton-metrics.md#refused-requests.
"""

from __future__ import annotations

from typing import Literal

from spec.names import GATEWAY_NAMESPACE, TRITON_NAMESPACE
from spec.prometheus.rule import Group, alert, any_of, group
from spec.settings.model import Settings

JOB = "envoy"
"""The `job` label of Envoy's pods: what Envoy Gateway gives them as `app.kubernetes.io/name`."""
_SHARE = 0.01


Protocol = Literal["http", "grpc"]


def attempts(code_class: str | None = None) -> str:
    """Select answers to clients over HTTP, of one class of status (`5`) or of all: of pods, and Envoy's own for want of one.

    What a retry replaced is counted as `envoy_cluster_retry_upstream_rq_xx`, and what a rate limit refused in neither.
    """
    matchers = () if code_class is None else (f'envoy_response_code_class="{code_class}"',)
    return of_routes("envoy_cluster_upstream_rq_xx", "http", *matchers)


def calls(outcome: str) -> str:
    """Select calls of ModelInfer over gRPC, after their retries, that ended with a status (`14`: UNAVAILABLE), or `total`.

    Envoy Gateway counts them for each GRPCRoute of its own accord, with statistics for each method (Envoy's filter
    grpc_stats). Envoy takes the first two parts of `inference.GRPCInferenceService.ModelInfer` for service and method and
    makes labels of them, and the third stays in the name. What the rate limit refuses comes before that filter and is in
    none. Nor are errors in a stream: its messages carry them, and the call itself ends well.
    """
    return of_routes(f"envoy_cluster_grpc_ModelInfer_{outcome}", "grpc")


def without_a_pod() -> str:
    """Return how many requests of the last minute found a route none of whose pods is ready, which Envoy answered itself."""
    return f"sum(increase({answered_without_a_pod()}[1m]))"


def answered_without_a_pod() -> str:
    """Select the requests that found a route none of whose pods is ready.

    Envoy counts them for each listener, not for each route (docs/facts/envoy.md#a-route-without-pods).
    """
    listeners = f'namespace="{GATEWAY_NAMESPACE}",job="{JOB}",envoy_http_conn_manager_prefix=~"https?-[0-9]+"'
    return f"envoy_http_rq_direct_response{{{listeners}}}"


def rate_limited() -> str:
    """Select the requests that a rate limit refused: of all routes and both protocols together."""
    return f'envoy_http_local_rate_limit_rate_limited{{namespace="{GATEWAY_NAMESPACE}",job="{JOB}"}}'


def of_routes(name: str, protocol: Protocol | None = None, *matchers: str) -> str:
    """Select the series of a metric of Envoy for the routes to Triton, of one protocol or of both.

    Envoy Gateway calls their clusters `httproute/<namespace>/<route>/rule/<index>`, or `grpcroute/…`; a route is called like
    its model. Left out are `…/rule/<index>-mirror-<index>`, of copies for a candidate: no client waits for those.
    """
    kinds = "(http|grpc)" if protocol is None else protocol
    clusters = f"{kinds}route/{TRITON_NAMESPACE}/.+/rule/[^-]+"
    own = (f'namespace="{GATEWAY_NAMESPACE}"', f'job="{JOB}"', f'envoy_cluster_name=~"{clusters}"')
    return f"{name}{{{','.join([*own, *matchers])}}}"


def active(*routes: str) -> str:
    """Select the requests that Triton's pods have from these routes, streams included, over both protocols."""
    clusters = f"(http|grpc)route/{TRITON_NAMESPACE}/{any_of(routes)}/rule/[^-]+"
    own = f'namespace="{GATEWAY_NAMESPACE}",job="{JOB}",envoy_cluster_name=~"{clusters}"'
    return f"envoy_cluster_upstream_rq_active{{{own}}}"


def by_route(expression: str) -> str:
    """Return the sum of an expression for each route and protocol, in the labels `route` and `protocol`."""
    pattern = f"(http|grpc)route/{TRITON_NAMESPACE}/(.+)/rule/.*"
    named = f'label_replace({expression}, "route", "$2", "envoy_cluster_name", "{pattern}")'
    return f'sum by (route, protocol) (label_replace({named}, "protocol", "$1", "envoy_cluster_name", "{pattern}"))'


def failing(window: str) -> str:
    """Return the share of each route's answers that are errors: over HTTP a 5xx, over gRPC UNAVAILABLE."""
    shares = (
        (attempts("5"), attempts()),
        (calls("14"), calls("total")),
    )
    return "\nor\n".join(
        f"{by_route(f'rate({failed}[{window}])')} / ({by_route(f'rate({all_}[{window}])')} > 0)" for failed, all_ in shares
    )


def gateway_group(settings: Settings) -> Group:
    """Return the alerts about the gateway; none where the stack has no gateway."""
    if settings.gateway is None:
        return group("triton.gateway", [])
    return group(
        "triton.gateway",
        [
            alert(
                "TritonGatewayFailures",
                f"(\n{failing('5m')}\n) > {_SHARE:g}",
                lasting="5m",
                severity="warning",
                summary="{{ $value | humanizePercentage }} of the answers about {{ $labels.route }} over "
                "{{ $labels.protocol }} are errors",
                description="Over HTTP, more than 1 % of the answers are a 5xx after their retries. 503 is a full queue, "
                "which is counted nowhere else, or a queue time that ran out. Over gRPC, more than 1 % of the calls of "
                "ModelInfer ended as UNAVAILABLE after their retries: that is the same.",
            )
        ],
    )
