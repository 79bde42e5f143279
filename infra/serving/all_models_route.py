"""Routes for clients without gateway support: calls that name no model in a header, and read-only calls.

They exist if one fleet serves all models and no client is restricted: over gRPC only the message names the model, and
proxies do not read it. A request with the model's header still uses the model's own route.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from infra.platform import gateway as envoy
from infra.serving.model_access import ModelAccess
from infra.serving.routed_model import RoutedModel, routed
from infra.serving.routes import GRPC_SERVICE, infer_method, listener, manifest
from infra.serving.traffic_policy import Manifest, policy_spec, routes_of
from infra.serving.triton_values import Drain
from spec.names import ALL_MODELS_ROUTE, TRITON_GRPC_PORT, TRITON_HTTP_PORT
from spec.settings import Settings

_READ_CALLS = ("ServerLive", "ServerReady", "ServerMetadata", "ModelReady", "ModelMetadata", "ModelConfig")


def manifests(settings: Settings, drain: Drain) -> Iterator[Manifest]:
    """Yield the routes and their policies, the access policy first; nothing if the conditions above do not hold."""
    gateway, fleets = settings.gateway, settings.each_fleet
    models = () if gateway is None else routed(settings.models, gateway, fleets)
    services = tuple(
        (fleet.release, weight)
        for fleet in fleets
        if all(fleet.serves(model.name) for model in models)
        and (weight := min((fleet.weight(model.name) for model in models), default=0))
    )
    if gateway is None or not services or any(client.restricted for client in (gateway.clients or {}).values()):
        return
    # A health probe would start the first pod of a fleet that requests start, so such fleets get no read-only routes.
    readable = not any(model.woken for model in models)
    rules = list(_grpc_rules(models, services, readable=readable))
    if not rules:
        return
    routes = {"GRPCRoute": (envoy.GRPC_LISTENER, rules)}
    if readable:
        routes["HTTPRoute"] = (envoy.HTTP_LISTENER, [_rule([_http_reads()], services, TRITON_HTTP_PORT)])
    targets = [target for target in routes_of(ALL_MODELS_ROUTE) if target["kind"] in routes]
    if gateway.clients is not None:
        access = ModelAccess(gateway.clients, gateway.jwt).http_spec(targets)
        yield manifest("gateway.envoyproxy.io/v1alpha1", "SecurityPolicy", ALL_MODELS_ROUTE, access)
    for kind, (port, own) in routes.items():
        spec = {"parentRefs": [listener(port)], "rules": own}
        yield manifest("gateway.networking.k8s.io/v1", kind, ALL_MODELS_ROUTE, spec)
    # As for a model without settings: the longest request of all and the lowest peak rate, so no model's limit can be
    # bypassed.
    least = min((model.peak_rate for model in models if model.peak_rate is not None), default=None)
    streams, woken = any(model.streams for model in models), not readable
    limits = RoutedModel(ALL_MODELS_ROUTE, None, least, decoupled=streams, woken=woken)
    policy = {**policy_spec(limits, ALL_MODELS_ROUTE, drain), "targetRefs": targets}
    yield manifest("gateway.envoyproxy.io/v1alpha1", "BackendTrafficPolicy", ALL_MODELS_ROUTE, policy)


def _grpc_rules(models: Sequence[RoutedModel], services: Sequence[tuple[str, int]], *, readable: bool) -> Iterator[Manifest]:
    # The requests of a sequence would be spread over several servers, and each server refuses an incomplete sequence.
    if not any(model.serving is not None and model.serving.sequence is not None for model in models):
        # The same match as in the models' routes: of two matches with one path, Envoy uses the one with more headers.
        streams = any(model.streams for model in models)
        yield _rule([{"method": infer_method(streams=streams)}], services, TRITON_GRPC_PORT)
    if readable:
        method = {"type": "RegularExpression", "service": re.escape(GRPC_SERVICE), "method": f"({'|'.join(_READ_CALLS)})"}
        yield _rule([{"method": method}], services, TRITON_GRPC_PORT)


def _http_reads() -> Manifest:
    """Match the read-only HTTP calls. `/v2/models/stats` is left out: it returns the statistics of all models."""
    models = f"models/{_segment_unlike('stats')}(/versions/[0-9]+)?|models/[^/]+(/versions/[0-9]+)?/(config|ready)"
    value = f"/v2(/(health/(live|ready)|{models}))?"
    return {"method": "GET", "path": {"type": "RegularExpression", "value": value}}


def _segment_unlike(word: str) -> str:
    """Return a pattern for a path segment other than `word`, because the syntax (RE2) has no negation."""
    shorter = [word[:length] for length in range(1, len(word))]
    differs = [f"{word[:index]}[^/{letter}][^/]*" for index, letter in enumerate(word)]
    return f"({'|'.join([*shorter, *differs, f'{word}[^/]+'])})"


def _rule(matches: list[Manifest], services: Sequence[tuple[str, int]], port: int) -> Manifest:
    # Only a model's own route passes the model's name to Envoy's logs.
    unnamed = {"type": "RequestHeaderModifier", "requestHeaderModifier": {"remove": [envoy.MODEL_HEADER]}}
    backends = [
        {"name": service, "port": port, **({"weight": weight} if services[1:] else {})} for service, weight in services
    ]
    return {"matches": matches, "filters": [unnamed], "backendRefs": backends}
