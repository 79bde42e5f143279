"""Envoy's policy for the requests of one model on all routes: timeouts, retries, limits and load balancing."""

from __future__ import annotations

import math
from typing import Any

from infra.serving.routed_model import RoutedModel
from infra.serving.triton_values import Drain
from spec.settings.serving import ModelServing

Manifest = dict[str, Any]

SEQUENCE_HEADER = "x-sequence-id"
"""The header in which a client repeats a request's sequence. Requests with the same value go to one server."""

_RETRIES = 2
_RETRIED = ("connect-failure", "refused-stream", "reset-before-request", "retriable-status-codes", "unavailable")
_RETRY_PERCENT = 20
_DEVIATIONS = 3
_SECONDS = {"Second": 1, "Hour": 3600}
_CONNECT_SECONDS = 1
_RETRY_AFTER_SECONDS = 15
"""KEDA's polling interval. A pod takes an unknown longer time to start, and an early request costs little."""
_SLOW_START_SECONDS = 30
"""The time in which Envoy raises the traffic share of a new pod from a tenth to its full share
(https://www.envoyproxy.io/docs/envoy/latest/intro/arch_overview/upstream/load_balancing/slow_start)."""
_FAILURES_IN_A_ROW = 50
"""The number of failures after which a pod gets no requests. It has to exceed the 503s of a full queue. Between two batches
of 8, these are 16 in a row at three times the load that a pod can bear, and 48 at seven times."""
_EJECTION_SECONDS = 30
"""The first ejection time. Each further ejection in a row is longer by this time, up to 300 s."""
_MOST_EJECTED_PERCENT = 50
"""Envoy's panic threshold: if less than half of the pods remain, Envoy sends requests to all again."""
_EJECTION_INTERVAL = "200ms"
"""The ejection interval. It disables ejection by the share of errors, which one error in a fleet of 5 pods can cause.

Envoy Gateway has no switch for it. It needs 100 requests to a pod in an interval: 500 requests/s from one Envoy for one
route (https://www.envoyproxy.io/docs/envoy/latest/intro/arch_overview/upstream/outlier#success-rate).
"""


def policy_spec(model: RoutedModel, name: str, drain: Drain) -> Manifest:
    """Return Envoy's policy for the requests of one model on all routes."""
    serving = model.serving
    longest = drain.longest_request_seconds if serving is None else serving.longest_request_seconds
    spec: Manifest = {
        "targetRefs": routes_of(name),
        "loadBalancer": _load_balancer(model),
        "timeout": {
            "tcp": {"connectTimeout": f"{_CONNECT_SECONDS}s"},
            "http": {
                # A stopping server waits for open HTTP connections until its exit timeout (docs/drain.md). Idle connections
                # close before the server gets its stop signal.
                "connectionIdleTimeout": f"{max(1, drain.pre_stop_seconds // 2)}s",
                # Requests still queued after that are rejected anyway. A stream ends when its client or its server ends it.
                "requestTimeout": "0s" if model.streams else f"{longest}s",
            },
        },
        "circuitBreaker": _circuit_breaker(serving, longest),
        "healthCheck": {"passive": _passive_health_check()},
    }
    if serving is None or serving.sequence is None:
        spec["retry"] = _retry()
    rules = _rate_rules(model)
    if rules:
        spec["rateLimit"] = {"type": "Local", "local": {"rules": rules}}
    if model.woken:
        spec["responseOverride"] = [_ask_again()]
    return spec


def _ask_again() -> Manifest:
    """Return the replacement of Envoy's own 503 over HTTP, which tells the client to retry and when.

    Envoy's gRPC response has the status UNAVAILABLE, which clients retry by themselves, so it is unchanged.
    """
    return {
        "match": {"statusCodes": [{"type": "Value", "value": 503}]},
        "source": "Local",
        "response": {
            "contentType": "application/json",
            "body": {"type": "Inline", "inline": '{"error": "no pod answers for this model yet; ask again"}'},
            "header": {"set": [{"name": "Retry-After", "value": str(_RETRY_AFTER_SECONDS)}]},
        },
    }


def _rate_rules(model: RoutedModel) -> list[Manifest]:
    """Return the limits of a model: its own limit and its clients' limits, in the unit of its own."""
    own = [] if model.peak_rate is None else [_rate_limit(model.peak_rate)]
    if model.access is None:
        return own
    unit = own[0]["limit"]["unit"] if own else "Second"
    return own + model.access.rate_rules(unit, _SECONDS[unit])


def _load_balancer(model: RoutedModel) -> Manifest:
    if model.serving is not None and model.serving.sequence is not None:
        return {"type": "ConsistentHash", "consistentHash": {"type": "Headers", "headers": [{"name": SEQUENCE_HEADER}]}}
    # A pod that has just become ready has no requests. Least request alone would send it most requests while its caches are
    # cold and its connections are opened.
    return {"type": "LeastRequest", "slowStart": {"window": f"{_SLOW_START_SECONDS}s"}}


def _retry() -> Manifest:
    """Return the retries at another pod. Only requests that no server began are retried: they did not arrive or were
    refused.

    Not arrived: no connection, a connection that closed just then (`reset-before-request`: the server closed it while idle),
    or a stream after a GOAWAY (`refused-stream`: `--grpc-max-connection-age`). Refused, with 503 or UNAVAILABLE: the queue
    is full, or the request exceeded its queue timeout. Other requests are not retried: a request that timed out or failed
    may have been computed, and a retry would compute it again. Sequences are never retried, because they are not idempotent.
    """
    return {
        "numRetries": _RETRIES,
        "retryOn": {
            "triggers": list(_RETRIED),
            "httpStatusCodes": [503],
        },
        "perRetry": {"backOff": {"baseInterval": "25ms", "maxInterval": "250ms"}},
    }


def _circuit_breaker(serving: ModelServing | None, longest: int) -> Manifest:
    """Return a retry budget and limits for requests in flight. The budget protects a full fleet from more load.

    By Little's law the limit is the peak rate times the longest request; Envoy's default of 1024 is the minimum.
    """
    in_flight = 1024 if serving is None else max(1024, math.ceil(serving.peak_rate * longest))
    return {
        "maxConnections": in_flight,
        "maxParallelRequests": in_flight,
        "maxPendingRequests": in_flight,
        "retryBudget": {"percent": {"numerator": _RETRY_PERCENT}, "minRetryConcurrency": 3},
    }


def _passive_health_check() -> Manifest:
    """Return the rule to eject a ready pod that answers a model's requests only with errors, as after losing its GPU.

    Counting only gateway errors (502, 503, 504) would miss that, because Triton answers 500, over gRPC INTERNAL. Each route
    of each Envoy counts separately. So requests that always fail remove pods only from their model's route, and at most
    half.
    """
    return {
        "consecutive5XxErrors": _FAILURES_IN_A_ROW,
        "interval": _EJECTION_INTERVAL,
        "baseEjectionTime": f"{_EJECTION_SECONDS}s",
        "maxEjectionPercent": _MOST_EJECTED_PERCENT,
    }


def _rate_limit(peak_rate: float) -> Manifest:
    """Return the rate limit for the configured peak, with a margin for random variation. It is per route and Envoy.

    Envoy counts for each of its routes by itself, and has one for each match: one over HTTP, and one over gRPC. So what all
    Envoys let through together is that many times as much: this limit is not the fleet's.

    Requests of a Poisson stream vary: with a mean of 60 per second, nearly every other second has more than 60. With three
    standard deviations more, only one second in a thousand exceeds the limit.

    The limit is not divided among the Envoys, because a gRPC client has one connection and so uses one Envoy. The servers'
    queues limit the fleet; this limit is for a client out of control.
    """
    unit = "Second" if peak_rate >= 1 else "Hour"
    expected = peak_rate * _SECONDS[unit]
    return {"limit": {"requests": math.ceil(expected + _DEVIATIONS * math.sqrt(expected)), "unit": unit}}


def routes_of(name: str) -> list[Manifest]:
    """Return the references to a model's routes, over HTTP and gRPC."""
    return [{"group": "gateway.networking.k8s.io", "kind": kind, "name": name} for kind in ("HTTPRoute", "GRPCRoute")]
