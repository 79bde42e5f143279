"""Routes and policies of each model: the requests that reach Triton through the gateway.

Only inference is routed. The other APIs of the server (repository, configuration, statistics, trace, logging, shared
memory), its health and its metrics have no route, so that no client reaches them through the gateway.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from infra.aws.cluster_access import ClusterAccess
from infra.platform import gateway as envoy
from infra.platform.installed_chart import custom_resource
from infra.serving import model_access
from infra.serving.model_access import ModelAccess
from infra.serving.triton_values import Drain
from spec.names import GATEWAY_NAMESPACE, TRITON_GRPC_PORT, TRITON_HTTP_PORT, TRITON_NAMESPACE, TRITON_SERVICE
from spec.settings import Settings
from spec.settings.blue_green import helm_release, other_slot
from spec.settings.fleets import Fleet
from spec.settings.gateway import Canary, Gateway
from spec.settings.models import Models
from spec.settings.serving import ModelServing

Manifest = dict[str, Any]

SEQUENCE_HEADER = "x-sequence-id"
"""Where a client names the sequence of a request a second time; requests with one value go to one server."""
REQUEST_ID_HEADER = "x-request-id"

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
_BUCKETS = 256
_GRPC_SERVICE = "inference.GRPCInferenceService"
_GRPC_POLICY = ".grpc"
"""The end of the name of a model's policy for gRPC; no other object's has a dot."""


@dataclass(frozen=True)
class RoutedModel:
    """A model of the release. `serving` None: the stack says nothing of it. `decoupled`: it answers when it likes. `access`
    None: whoever reaches it may ask. `woken`: a request that finds no pod starts the first one.

    `least_peak_rate`: the smallest peak rate, in requests per second, of those of which it says something. `services`: those
    of the fleets that serve it, each with its part of the requests. `mirror`: the Service that gets copies of so many
    percent of the requests, whose answers Envoy drops.
    """

    name: str
    version: int
    serving: ModelServing | None
    canary: Canary | None
    least_peak_rate: float | None = None
    decoupled: bool = False
    access: ModelAccess | None = None
    services: tuple[tuple[str, int], ...] = ((TRITON_SERVICE, 1),)
    mirror: tuple[str, int] | None = None
    woken: bool = False

    @property
    def peak_rate(self) -> float | None:
        """Return its own rate, or the least of all.

        A model without a rate may be an ensemble, whose requests reach its steps past their limits.
        """
        return self.least_peak_rate if self.serving is None else self.serving.peak_rate

    @property
    def streams(self) -> bool:
        """Whether clients ask it over streams."""
        return self.decoupled or (self.serving is not None and self.serving.sequence is not None)


class ModelRoutes(pulumi.ComponentResource):
    """An HTTPRoute, a GRPCRoute and a BackendTrafficPolicy for each model, and where the gateway has clients who may ask it.

    A model's policies of access are there before its routes, and what closes the gateway to all else comes when each
    model has its own: a new stack is never open, and one that gets clients is never closed to them.

    `beside`: the objects of a route that is no model's. `opts.depends_on` has to name the gateway, whose chart brings the
    kinds, and Triton, in whose namespace they are.
    """

    def __init__(
        self,
        name: str,
        cluster: ClusterAccess,
        models: Sequence[RoutedModel],
        drain: Drain,
        beside: Sequence[Manifest] = (),
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("triton:serving:ModelRoutes", name, None, opts)
        secured: list[pulumi.Resource] = []
        for objects in [*(list(manifests([model], drain)) for model in models), beside]:
            before: list[pulumi.Resource] = []
            for one in objects:
                made = custom_resource(
                    f"{name}-{one['metadata']['name']}-{one['kind'].lower()}", one, cluster.in_cluster(self, *before)
                )
                if one["kind"] == "SecurityPolicy":
                    before.append(made)
            secured += before
        if secured:
            custom_resource(f"{name}-refusal", model_access.refusal(), cluster.in_cluster(self, *secured))
        self.register_outputs({})


def routed(models: Models, gateway: Gateway, fleets: Sequence[Fleet[Settings]] = ()) -> tuple[RoutedModel, ...]:
    """Return every model of the release, in order, with what the stack says of it and the fleets that serve it; none without
    a release. Without `fleets`, Triton's one Service is asked.
    """
    versions = models.release.models if models.release is not None else {}
    least = min((one.peak_rate for one in models.serving.values()), default=None)
    access = None if gateway.clients is None else ModelAccess(gateway.clients, gateway.jwt)
    return tuple(
        RoutedModel(
            name,
            version,
            models.serving.get(name),
            gateway.canaries.get(name),
            least,
            models.is_decoupled(name),
            None if access is None else access.of_model(name, _served_beside(name, models, gateway, fleets)),
            _services(name, fleets) if fleets else ((TRITON_SERVICE, 1),),
            _mirror(name, models),
            any(fleet.stack.woken_at_gateway for fleet in fleets if fleet.serves(name)),
        )
        for name, version in sorted(versions.items())
    )


def _mirror(model: str, models: Models) -> tuple[str, int] | None:
    candidate = models.candidate
    if candidate is None or not candidate.mirror_percent or model not in candidate.release.models:
        return None
    return helm_release(other_slot(models.slot)), candidate.mirror_percent


def _services(model: str, fleets: Sequence[Fleet[Settings]]) -> tuple[tuple[str, int], ...]:
    return tuple((fleet.release, fleet.weight(model)) for fleet in fleets if fleet.serves(model))


def _served_beside(model: str, models: Models, gateway: Gateway, fleets: Sequence[Fleet[Settings]]) -> frozenset[str] | None:
    """Return every model of the pods that are asked for one; None for a canary of a Service, whose pods others make."""
    canary = gateway.canaries.get(model)
    if canary is not None and canary.service is not None:
        return None
    sections = [fleet.stack.models for fleet in fleets if fleet.serves(model)] or [models]
    return frozenset(name for one in sections if one.release is not None for name in one.release.models)


def manifests(models: Iterable[RoutedModel], drain: Drain) -> Iterator[Manifest]:
    """Yield the custom resources of all models; of one, those that say who may ask it come first."""
    for model in models:
        name = object_name(model.name)
        if model.access is not None:
            http, grpc = ([route] for route in _routes(name))
            # That of gRPC first: on a stack whose policy is still of both routes, neither is left without one.
            yield manifest(
                "gateway.envoyproxy.io/v1alpha1", "SecurityPolicy", f"{name}{_GRPC_POLICY}", model.access.grpc_spec(grpc)
            )
            yield manifest("gateway.envoyproxy.io/v1alpha1", "SecurityPolicy", name, model.access.http_spec(http))
        yield manifest("gateway.networking.k8s.io/v1", "HTTPRoute", name, http_route_spec(model))
        yield manifest("gateway.networking.k8s.io/v1", "GRPCRoute", name, grpc_route_spec(model))
        policy = policy_spec(model, name, drain)
        yield manifest("gateway.envoyproxy.io/v1alpha1", "BackendTrafficPolicy", name, policy)


def object_name(model: str) -> str:
    """Return the name of a model's objects: its own where Kubernetes allows that, else one like it and unique."""
    if len(model) <= 50 and re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", model):
        return model
    readable = re.sub(r"[^a-z0-9]+", "-", model.lower()).strip("-")[:40].strip("-")
    return f"{readable}-{hashlib.sha256(model.encode()).hexdigest()[:8]}"


def http_route_spec(model: RoutedModel) -> Manifest:
    """Return the route over HTTP. A canary of a version is a path that Envoy rewrites, one of a service a weight.

    A weight cannot rewrite the path (Envoy Gateway refuses that within a backendRef), so that requests to a version are
    chosen by the last two hex digits of the id that Envoy gives each of them: 256 buckets of equal size.
    """
    path = f"/v2/models/{model.name}"
    rules, ends = [], ["(/versions/[0-9]+)?/infer"]
    if model.canary is not None and model.canary.version is not None:
        infer = {"type": "Exact", "value": f"{path}/infer"}
        chosen = _match(model, infer, {REQUEST_ID_HEADER: _ids(model.canary.percent)})
        rules.append(_http_rule(model, chosen, f"{path}/versions/{model.canary.version}/infer"))
        rules.append(_http_rule(model, _match(model, infer), f"{path}/versions/{model.version}/infer"))
        ends = ["/versions/[0-9]+/infer"]
    if model.decoupled:
        # Over HTTP a decoupled model answers these alone.
        ends.append("/generate(_stream)?")
    # One match for all of them, because Envoy counts a rate for each match by itself.
    pattern = f"/v2/models/{re.escape(model.name)}({'|'.join(ends)})"
    rules.append(_http_rule(model, _match(model, {"type": "RegularExpression", "value": pattern})))
    return {"parentRefs": [listener(envoy.HTTP_LISTENER)], "rules": rules}


def grpc_route_spec(model: RoutedModel) -> Manifest:
    """Return the route of inference over gRPC, for requests that name the model in the header `x-triton-model` as well.

    Which model and version a message is for, no proxy sees. So the header chooses the route, and the version is chosen by
    whoever makes the message: clients follow the ConfigMap `triton-served-versions`, which a rollout in place writes
    (stable, canary, percent), and Envoy has no part in it. Only a canary of a service is Envoy's here.
    """
    method = {"type": "Exact", "service": _GRPC_SERVICE, "method": "ModelInfer"}
    if model.streams:
        # One match for both, because Envoy counts a rate for each match by itself.
        method = {"type": "RegularExpression", "service": re.escape(_GRPC_SERVICE), "method": "Model(Stream)?Infer"}
    headers = [{"type": "Exact", "name": envoy.MODEL_HEADER, "value": model.name}, *_sequence_header(model)]
    rule: Manifest = {"matches": [{"method": method, "headers": headers}], "backendRefs": _backends(model, TRITON_GRPC_PORT)}
    if model.mirror is not None:
        rule["filters"] = [_copies(*model.mirror, TRITON_GRPC_PORT)]
    return {"parentRefs": [listener(envoy.GRPC_LISTENER)], "rules": [rule]}


def client_rates(models: Iterable[RoutedModel], envoys: int) -> dict[str, dict[str, int]]:
    """Return by client with a rate, and by model that it may ask, how many requests a second so many Envoys let through.

    Each of them counts for each match of a route by itself
    (https://github.com/envoyproxy/gateway/blob/v1.9.0/internal/xds/translator/local_ratelimit.go), so that a client whose
    connections end at all of them gets a multiple of its rate, and one with a single connection its rate.
    """
    most: dict[str, dict[str, int]] = {}
    for model in models:
        if model.access is None:
            continue
        http, grpc = _counters(http_route_spec(model)), _counters(grpc_route_spec(model))
        for name, client in model.access.clients.items():
            if client.requests_per_second is not None:
                counters = http + (grpc if name in model.access.over_grpc else 0)
                most.setdefault(name, {})[model.name] = client.requests_per_second * counters * envoys
    return most


def _counters(route: Manifest) -> int:
    return sum(len(rule["matches"]) for rule in route["rules"])


def policy_spec(model: RoutedModel, name: str, drain: Drain) -> Manifest:
    """Return how Envoy treats the requests of one model, whichever route they come by."""
    serving = model.serving
    longest = drain.longest_request_seconds if serving is None else serving.longest_request_seconds
    spec: Manifest = {
        "targetRefs": _routes(name),
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


def _rate_limit(peak_rate: float) -> Manifest:
    """Return the rule for the peak that the stack promises, with room for chance, for each route of each Envoy.

    Envoy counts for each of its routes by itself, and has one for each match: one over HTTP, two more with a canary of a
    version, and one over gRPC. So what all Envoys let through together is that many times as much: this limit is not the
    fleet's.

    Requests of a Poisson stream do not come evenly: of a second with a mean of 60, more than 60 come in nearly every other
    one. Three standard deviations more let all but one second in a thousand through.
    Not a share of it for each Envoy: a gRPC client has one connection, and so one of them. What the fleet can do is bounded
    by the queues of the servers; this is for a client that has gone wild.
    """
    unit = "Second" if peak_rate >= 1 else "Hour"
    expected = peak_rate * _SECONDS[unit]
    return {"limit": {"requests": math.ceil(expected + _DEVIATIONS * math.sqrt(expected)), "unit": unit}}


def _http_rule(model: RoutedModel, match: Manifest, rewritten: str | None = None) -> Manifest:
    # Envoy's own spans and logs know the model by this header, and no client can say another.
    filters: list[Manifest] = [
        {
            "type": "RequestHeaderModifier",
            "requestHeaderModifier": {"set": [{"name": envoy.MODEL_HEADER, "value": model.name}]},
        }
    ]
    if rewritten is not None:
        path = {"type": "ReplaceFullPath", "replaceFullPath": rewritten}
        filters.append({"type": "URLRewrite", "urlRewrite": {"path": path}})
    if model.mirror is not None:
        filters.append(_copies(*model.mirror, TRITON_HTTP_PORT))
    return {"matches": [match], "filters": filters, "backendRefs": _backends(model, TRITON_HTTP_PORT)}


def _copies(service: str, percent: int, port: int) -> Manifest:
    """Return the filter of a rule of either kind of route that sends a Service copies of so many percent of its requests."""
    return {
        "type": "RequestMirror",
        "requestMirror": {"backendRef": {"name": service, "port": port}, "percent": percent},
    }


def _match(model: RoutedModel, path: Manifest, headers: Mapping[str, str] | None = None) -> Manifest:
    match: Manifest = {"method": "POST", "path": path}
    wanted = [{"type": "RegularExpression", "name": name, "value": value} for name, value in (headers or {}).items()]
    wanted += _sequence_header(model)
    return {**match, "headers": wanted} if wanted else match


def _sequence_header(model: RoutedModel) -> list[Manifest]:
    """Require the header for a sequence: without it, its requests would be spread over servers that refuse their part."""
    if model.serving is None or model.serving.sequence is None:
        return []
    return [{"type": "RegularExpression", "name": SEQUENCE_HEADER, "value": ".+"}]


def _ids(percent: int) -> str:
    """Return a pattern for the ids of so many percent of the requests: ids that end in 00, 01, … up to that share of 256."""
    chosen = max(1, round(percent * _BUCKETS / 100))
    full, rest = divmod(chosen, 16)
    digits = "0123456789abcdef"
    parts = ([f"[{digits[:full]}][0-9a-f]"] if full else []) + ([f"{digits[full]}[{digits[:rest]}]"] if rest else [])
    return f".*({'|'.join(parts)})"


def _backends(model: RoutedModel, port: int) -> list[Manifest]:
    """Return the Services that are asked, with weights where there are several. A canary's part is of all requests."""
    weights = dict(model.services)
    if model.canary is not None and model.canary.service is not None:
        percent, parts = model.canary.percent, sum(weights.values())
        weights = {service: weight * (100 - percent) for service, weight in weights.items()}
        weights[model.canary.service] = percent * parts
    if len(weights) == 1:
        return [{"name": service, "port": port} for service in weights]
    return [{"name": service, "port": port, "weight": weight} for service, weight in weights.items()]


def _routes(name: str) -> list[Manifest]:
    return [{"group": "gateway.networking.k8s.io", "kind": kind, "name": name} for kind in ("HTTPRoute", "GRPCRoute")]


def listener(name: str) -> Manifest:
    """Return the reference of a route to a listener of the gateway."""
    return {"name": envoy.GATEWAY, "namespace": GATEWAY_NAMESPACE, "sectionName": name}


def manifest(api_version: str, kind: str, name: str, spec: Manifest) -> Manifest:
    """Return an object beside Triton."""
    metadata = {"name": name, "namespace": TRITON_NAMESPACE}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}
