"""The routes of each model, for inference requests that reach Triton through the gateway.

`infra.serving.all_models_route` adds read-only calls. The server's other APIs (repository, statistics, trace, logging,
shared memory) and its metrics have no route.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import pulumi

from infra.aws.cluster_access import ClusterAccess
from infra.platform import gateway as envoy
from infra.platform.installed_chart import custom_resource
from infra.serving import model_access
from infra.serving.routed_model import RoutedModel
from infra.serving.traffic_policy import SEQUENCE_HEADER, Manifest, policy_spec, routes_of
from infra.serving.triton_values import Drain
from spec.names import GATEWAY_NAMESPACE, TRITON_GRPC_PORT, TRITON_HTTP_PORT, TRITON_NAMESPACE
from spec.route_names import object_name

GRPC_SERVICE = "inference.GRPCInferenceService"

_GRPC_POLICY = ".grpc"
"""The suffix of the name of a model's gRPC policy. No other object's name has a dot."""


class ModelRoutes(pulumi.ComponentResource):
    """An HTTPRoute, a GRPCRoute and a BackendTrafficPolicy for each model. With clients, also its access policies.

    A model's access policies are created before its routes, and the gateway's default denial after all models' policies. So
    a new stack is never open, and adding clients never blocks them.

    `beside` are the objects of routes without a model. `opts.depends_on` has to name the gateway, whose chart installs the
    custom resources, and Triton, which creates the namespace.
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


def manifests(models: Iterable[RoutedModel], drain: Drain) -> Iterator[Manifest]:
    """Yield the custom resources of all models, with the access policies of each model first."""
    for model in models:
        name = object_name(model.name)
        if model.access is not None:
            http, grpc = ([route] for route in routes_of(name))
            # The gRPC policy first: on a stack whose policy still covers both routes, neither route is without one.
            yield manifest(
                "gateway.envoyproxy.io/v1alpha1", "SecurityPolicy", f"{name}{_GRPC_POLICY}", model.access.grpc_spec(grpc)
            )
            yield manifest("gateway.envoyproxy.io/v1alpha1", "SecurityPolicy", name, model.access.http_spec(http))
        yield manifest("gateway.networking.k8s.io/v1", "HTTPRoute", name, http_route_spec(model))
        yield manifest("gateway.networking.k8s.io/v1", "GRPCRoute", name, grpc_route_spec(model))
        policy = policy_spec(model, name, drain)
        yield manifest("gateway.envoyproxy.io/v1alpha1", "BackendTrafficPolicy", name, policy)


def http_route_spec(model: RoutedModel) -> Manifest:
    """Return the route over HTTP."""
    ends = ["(/versions/[0-9]+)?/infer"]
    if model.decoupled:
        # Over HTTP a decoupled model supports only these.
        ends.append("/generate(_stream)?")
    # One match for all of them, because Envoy counts a rate for each match separately.
    pattern = f"/v2/models/{re.escape(model.name)}({'|'.join(ends)})"
    return {"parentRefs": [listener(envoy.HTTP_LISTENER)], "rules": [_http_rule(model, pattern)]}


def grpc_route_spec(model: RoutedModel) -> Manifest:
    """Return the gRPC route for inference requests that also name the model in the header `x-triton-model`.

    Proxies do not see the model and version in a message. So the header selects the route, and the client selects the
    version by the ConfigMap `triton-served-versions`, which in-place rollouts write (stable, canary, percent).
    """
    match = {
        "method": infer_method(streams=model.streams),
        "headers": [{"type": "Exact", "name": envoy.MODEL_HEADER, "value": model.name}, *_sequence_header(model)],
    }
    rule: Manifest = {"matches": [match], "backendRefs": _backends(model, TRITON_GRPC_PORT)}
    if model.mirror is not None:
        rule["filters"] = [_copies(*model.mirror, TRITON_GRPC_PORT)]
    return {"parentRefs": [listener(envoy.GRPC_LISTENER)], "rules": [rule]}


def infer_method(*, streams: bool) -> Manifest:
    """Return the match of inference over gRPC: one for both methods, because Envoy counts a rate for each match."""
    if streams:
        return {"type": "RegularExpression", "service": re.escape(GRPC_SERVICE), "method": "Model(Stream)?Infer"}
    return {"type": "Exact", "service": GRPC_SERVICE, "method": "ModelInfer"}


def client_rates(models: Iterable[RoutedModel], envoys: int) -> dict[str, dict[str, int]]:
    """Return the requests per second that all Envoys together allow, by client with a rate and by model.

    Each Envoy counts each match of a route separately
    (https://github.com/envoyproxy/gateway/blob/v1.9.0/internal/xds/translator/local_ratelimit.go). So a client with
    connections to all Envoys gets a multiple of its rate, and a client with a single connection gets its rate.
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


def _http_rule(model: RoutedModel, pattern: str) -> Manifest:
    match: Manifest = {"method": "POST", "path": {"type": "RegularExpression", "value": pattern}}
    if headers := _sequence_header(model):
        match["headers"] = headers
    # Envoy's spans and logs take the model from this header, and clients cannot change it.
    filters: list[Manifest] = [
        {
            "type": "RequestHeaderModifier",
            "requestHeaderModifier": {"set": [{"name": envoy.MODEL_HEADER, "value": model.name}]},
        }
    ]
    if model.mirror is not None:
        filters.append(_copies(*model.mirror, TRITON_HTTP_PORT))
    return {"matches": [match], "filters": filters, "backendRefs": _backends(model, TRITON_HTTP_PORT)}


def _copies(service: str, percent: int, port: int) -> Manifest:
    """Return the filter that sends a Service copies of this percentage of requests. It fits rules of both route kinds."""
    return {
        "type": "RequestMirror",
        "requestMirror": {"backendRef": {"name": service, "port": port}, "percent": percent},
    }


def _sequence_header(model: RoutedModel) -> list[Manifest]:
    """Require the header for a sequence; otherwise its requests would be spread over servers that refuse parts of it."""
    if model.serving is None or model.serving.sequence is None:
        return []
    return [{"type": "RegularExpression", "name": SEQUENCE_HEADER, "value": ".+"}]


def _backends(model: RoutedModel, port: int) -> list[Manifest]:
    """Return the target Services, with weights if there are several."""
    weights = dict(model.services)
    if model.mirror is not None:
        # For a GRPCRoute the controller looks up only these Services. If the Service for copies is unknown, all requests
        # fail: docs/facts/envoy.md#copies-of-requests.
        weights.setdefault(model.mirror[0], 0)
    if len(weights) == 1:
        return [{"name": service, "port": port} for service in weights]
    return [{"name": service, "port": port, "weight": weight} for service, weight in weights.items()]


def listener(name: str) -> Manifest:
    """Return a route's reference to a listener of the gateway."""
    return {"name": envoy.GATEWAY, "namespace": GATEWAY_NAMESPACE, "sectionName": name}


def manifest(api_version: str, kind: str, name: str, spec: Manifest) -> Manifest:
    """Return an object in Triton's namespace."""
    metadata = {"name": name, "namespace": TRITON_NAMESPACE}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}
