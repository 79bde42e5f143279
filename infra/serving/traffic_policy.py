"""How Envoy treats the requests of one model, whichever route they come by: time, retries, limits, the choice of a pod."""

from __future__ import annotations

import math
from typing import Any

from infra.serving.routed_model import RoutedModel
from infra.serving.triton_values import Drain
from spec.settings.serving import ModelServing

Manifest = dict[str, Any]

SEQUENCE_HEADER = "x-sequence-id"
"""Where a client names the sequence of a request a second time; requests with one value go to one server."""

_RETRIES = 2
_RETRIED = ("connect-failure", "refused-stream", "reset-before-request", "retriable-status-codes", "unavailable")
_RETRY_PERCENT = 20
_DEVIATIONS = 3
_SECONDS = {"Second": 1, "Hour": 3600}
_CONNECT_SECONDS = 1
_RETRY_AFTER_SECONDS = 15
"""As often as KEDA looks: a pod takes longer to start, how much longer nobody knows, and an early request costs little."""
_SLOW_START_SECONDS = 30
"""In which Envoy raises the share of a new pod, from a tenth to its part
(https://www.envoyproxy.io/docs/envoy/latest/intro/arch_overview/upstream/load_balancing/slow_start)."""
_FAILURES_IN_A_ROW = 50
"""After which a pod gets no requests. A full queue refuses with 503 too: between two batches of 8, 16 in a row at three
times the load that a pod can bear, 48 at seven times."""
_EJECTION_SECONDS = 30
"""The first time; each further time in a row as much longer, up to 300 s."""
_MOST_EJECTED_PERCENT = 50
"""Envoy's panic threshold: if less than half of the pods are left, Envoy sends to all again."""
_EJECTION_INTERVAL = "200ms"
"""Envoy also ejects pods by their share of errors, for one error in a fleet of 5 pods, and Envoy Gateway has no switch for
it. It needs 100 requests to a pod in an interval: 500 requests/s from one Envoy for one route
(https://www.envoyproxy.io/docs/envoy/latest/intro/arch_overview/upstream/outlier#success-rate)."""


def policy_spec(model: RoutedModel, name: str, drain: Drain) -> Manifest:
    """Return how Envoy treats the requests of one model, whichever route they come by."""
    serving = model.serving
    longest = drain.longest_request_seconds if serving is None else serving.longest_request_seconds
    spec: Manifest = {
        "targetRefs": routes_of(name),
        "loadBalancer": _load_balancer(model),
        "timeout": {
            "tcp": {"connectTimeout": f"{_CONNECT_SECONDS}s"},
            "http": {
                # A server that stops waits for open HTTP connections, to the end of its exit timeout (docs/drain.md): idle
                # ones are gone before it is told to.
                "connectionIdleTimeout": f"{max(1, drain.pre_stop_seconds // 2)}s",
                # What is still queued after that is rejected anyway. A stream ends when its client or its server says so.
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
    """Return what takes the place of Envoy's own 503 over HTTP: that the request may be sent again, and when.

    Over gRPC Envoy's answer has the status UNAVAILABLE, which clients send again by themselves, and is left as it is.
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
    """Return the limits of a model: its own, and those of clients, in the unit of its own."""
    own = [] if model.peak_rate is None else [_rate_limit(model.peak_rate)]
    if model.access is None:
        return own
    unit = own[0]["limit"]["unit"] if own else "Second"
    return own + model.access.rate_rules(unit, _SECONDS[unit])


def _load_balancer(model: RoutedModel) -> Manifest:
    if model.serving is not None and model.serving.sequence is not None:
        return {"type": "ConsistentHash", "consistentHash": {"type": "Headers", "headers": [{"name": SEQUENCE_HEADER}]}}
    # A pod that has just become ready has no requests, and least request alone would send it most of them while its caches
    # are cold and its connections are opened.
    return {"type": "LeastRequest", "slowStart": {"window": f"{_SLOW_START_SECONDS}s"}}


def _retry() -> Manifest:
    """Return the retries: at another pod, where no server began the request, because nothing arrived or it was refused.

    Nothing arrived: no connection, one that closed just then (`reset-before-request`: the server ended it while it was
    idle), or a stream beyond a GOAWAY (`refused-stream`: `--grpc-max-connection-age`). Refused, 503 and UNAVAILABLE: its
    queue is full, or the request waited longer than its policy lets it. Nothing else: a request that timed out or failed may
    have been computed, and would be again. None for sequences, which are not idempotent.
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
    """Return a budget for retries, so that a fleet that is full is not made fuller, and room for what may be in flight.

    By Little's law that is the peak rate times the longest request; Envoy's own 1024 is the least.
    """
    in_flight = 1024 if serving is None else max(1024, math.ceil(serving.peak_rate * longest))
    return {
        "maxConnections": in_flight,
        "maxParallelRequests": in_flight,
        "maxPendingRequests": in_flight,
        "retryBudget": {"percent": {"numerator": _RETRY_PERCENT}, "minRetryConcurrency": 3},
    }


def _passive_health_check() -> Manifest:
    """Return when a ready pod gets no requests of a model: each of its answers is an error, as when it lost its GPU.

    Gateway errors (502, 503, 504) alone would miss that: Triton answers 500, over gRPC INTERNAL. Each route of each Envoy
    counts by itself, so requests that always fail take pods from the route of their model only, and at most half of them.
    """
    return {
        "consecutive5XxErrors": _FAILURES_IN_A_ROW,
        "interval": _EJECTION_INTERVAL,
        "baseEjectionTime": f"{_EJECTION_SECONDS}s",
        "maxEjectionPercent": _MOST_EJECTED_PERCENT,
    }


def _rate_limit(peak_rate: float) -> Manifest:
    """Return the rule for the peak that the stack promises, with room for chance, for each route of each Envoy.

    Envoy counts for each of its routes by itself, and has one for each match: one over HTTP, and one over gRPC. So what all
    Envoys let through together is that many times as much: this limit is not the fleet's.

    Requests of a Poisson stream do not come evenly: of a second with a mean of 60, more than 60 come in nearly every other
    one. Three standard deviations more let all but one second in a thousand through.
    Not a share of it for each Envoy: a gRPC client has one connection, and so one of them. What the fleet can do is bounded
    by the queues of the servers; this is for a client that has gone wild.
    """
    unit = "Second" if peak_rate >= 1 else "Hour"
    expected = peak_rate * _SECONDS[unit]
    return {"limit": {"requests": math.ceil(expected + _DEVIATIONS * math.sqrt(expected)), "unit": unit}}


def routes_of(name: str) -> list[Manifest]:
    """Return the references to the routes of a model, over HTTP and over gRPC."""
    return [{"group": "gateway.networking.k8s.io", "kind": kind, "name": name} for kind in ("HTTPRoute", "GRPCRoute")]
