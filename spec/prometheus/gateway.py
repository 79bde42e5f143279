"""Failures seen by the gateway. Triton does not count requests that a full queue rejects.

See docs/facts/triton-metrics.md#refused-requests.
"""

from __future__ import annotations

from typing import Literal

from spec.names import GATEWAY_NAMESPACE, TRITON_NAMESPACE
from spec.prometheus.rule import Group, alert, any_of, group
from spec.settings.model import Settings

JOB = "envoy"
"""The `job` label of the Envoy pods, the value of `app.kubernetes.io/name` that Envoy Gateway sets."""
_SHARE = 0.01


Protocol = Literal["http", "grpc"]


def attempts(code_class: str | None = None) -> str:
    """Select HTTP responses to clients, of one status class (`5`) or of all. They are from pods, or from Envoy without a
    pod.

    Responses that a retry replaced are counted as `envoy_cluster_retry_upstream_rq_xx`. Neither metric counts requests that
    a rate limit refused.
    """
    matchers = () if code_class is None else (f'envoy_response_code_class="{code_class}"',)
    return of_routes("envoy_cluster_upstream_rq_xx", "http", *matchers)


def calls(outcome: str) -> str:
    """Select gRPC calls of ModelInfer, after their retries, with this final status (`14`: UNAVAILABLE), or `total`.

    Envoy Gateway counts them by default for each GRPCRoute, per method (Envoy's filter grpc_stats). Envoy turns the first
    two parts of `inference.GRPCInferenceService.ModelInfer` into the labels for service and method; the third stays in the
    name. The metric does not include requests that the rate limit refuses before that filter. It also misses errors within a
    stream, because its messages carry them and the call itself succeeds.
    """
    return of_routes(f"envoy_cluster_grpc_ModelInfer_{outcome}", "grpc")


def without_a_pod() -> str:
    """Return how many requests in the last minute found a route without ready pods. Envoy answered them itself."""
    return f"sum(increase({answered_without_a_pod()}[1m]))"


def answered_without_a_pod() -> str:
    """Select the requests that found a route without ready pods.

    Envoy counts them for each listener, not for each route (docs/facts/envoy.md#a-route-without-pods).
    """
    listeners = f'namespace="{GATEWAY_NAMESPACE}",job="{JOB}",envoy_http_conn_manager_prefix=~"https?-[0-9]+"'
    return f"envoy_http_rq_direct_response{{{listeners}}}"


def rate_limited() -> str:
    """Select the requests that a rate limit refused, for all routes and both protocols together."""
    return f'envoy_http_local_rate_limit_rate_limited{{namespace="{GATEWAY_NAMESPACE}",job="{JOB}"}}'


def of_routes(name: str, protocol: Protocol | None = None, *matchers: str) -> str:
    """Select the series of an Envoy metric for the routes to Triton, of one protocol or of both.

    Envoy Gateway names their clusters `httproute/<namespace>/<route>/rule/<index>`, or `grpcroute/…`; a route has the name
    of its model. The selection excludes `…/rule/<index>-mirror-<index>`, copies for a candidate, because no client waits for
    them.
    """
    kinds = "(http|grpc)" if protocol is None else protocol
    clusters = f"{kinds}route/{TRITON_NAMESPACE}/.+/rule/[^-]+"
    own = (f'namespace="{GATEWAY_NAMESPACE}"', f'job="{JOB}"', f'envoy_cluster_name=~"{clusters}"')
    return f"{name}{{{','.join([*own, *matchers])}}}"


def active(*routes: str) -> str:
    """Select the active requests of these routes at Triton's pods, including streams, over both protocols."""
    clusters = f"(http|grpc)route/{TRITON_NAMESPACE}/{any_of(routes)}/rule/[^-]+"
    own = f'namespace="{GATEWAY_NAMESPACE}",job="{JOB}",envoy_cluster_name=~"{clusters}"'
    return f"envoy_cluster_upstream_rq_active{{{own}}}"


def by_route(expression: str) -> str:
    """Return the sum of an expression for each route and protocol, with the labels `route` and `protocol`."""
    pattern = f"(http|grpc)route/{TRITON_NAMESPACE}/(.+)/rule/.*"
    named = f'label_replace({expression}, "route", "$2", "envoy_cluster_name", "{pattern}")'
    return f'sum by (route, protocol) (label_replace({named}, "protocol", "$1", "envoy_cluster_name", "{pattern}"))'


def failing(window: str) -> str:
    """Return the share of errors among each route's responses: HTTP 5xx or gRPC UNAVAILABLE."""
    shares = (
        (attempts("5"), attempts()),
        (calls("14"), calls("total")),
    )
    return "\nor\n".join(
        f"{by_route(f'rate({failed}[{window}])')} / ({by_route(f'rate({all_}[{window}])')} > 0)" for failed, all_ in shares
    )


def gateway_group(settings: Settings) -> Group:
    """Return the alerts about the gateway; none if the stack has no gateway."""
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
