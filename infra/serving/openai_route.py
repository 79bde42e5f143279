"""The route of the OpenAI-compatible front end: one for all models, because the request body names the model."""

from __future__ import annotations

from collections.abc import Iterator

from infra.platform import gateway as envoy
from infra.serving.model_access import ModelAccess
from infra.serving.routed_model import RoutedModel
from infra.serving.routes import listener, manifest
from infra.serving.traffic_policy import Manifest, policy_spec
from infra.serving.triton_values import Drain
from spec.names import OPENAI_ROUTE, TRITON_OPENAI_PORT, TRITON_SERVICE
from spec.settings import Settings

_ASKED = (
    {"method": "POST", "path": {"type": "RegularExpression", "value": "/v1/((chat/)?completions|embeddings)"}},
    {"method": "GET", "path": {"type": "Exact", "value": "/v1/models"}},
)
"""The allowed client requests. Requests that load models, and health and metrics on the same port, are not allowed.

The inference requests are one match, because Envoy counts a rate for each match separately.
"""


def manifests(settings: Settings, drain: Drain) -> Iterator[Manifest]:
    """Yield the custom resources, access policies first; none without a gateway or without the front end."""
    gateway = settings.gateway
    if settings.triton.openai is None or gateway is None or settings.models.release is None:
        return
    access = None if gateway.clients is None else ModelAccess(gateway.clients, gateway.jwt)
    peak = sum(model.peak_rate for model in settings.models.serving.values())
    every = RoutedModel(OPENAI_ROUTE, None, peak, decoupled=True, access=access, woken=settings.woken_at_gateway)
    target = {"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": OPENAI_ROUTE}
    if access is not None:
        yield manifest("gateway.envoyproxy.io/v1alpha1", "SecurityPolicy", OPENAI_ROUTE, access.http_spec([target]))
    # Envoy does not know the model, and clients must not set it in its logs.
    unnamed = {"type": "RequestHeaderModifier", "requestHeaderModifier": {"remove": [envoy.MODEL_HEADER]}}
    rule = {
        "matches": list(_ASKED),
        "filters": [unnamed],
        "backendRefs": [{"name": TRITON_SERVICE, "port": TRITON_OPENAI_PORT}],
    }
    route = {"parentRefs": [listener(envoy.HTTP_LISTENER)], "rules": [rule]}
    yield manifest("gateway.networking.k8s.io/v1", "HTTPRoute", OPENAI_ROUTE, route)
    policy = {**policy_spec(every, OPENAI_ROUTE, drain), "targetRefs": [target]}
    yield manifest("gateway.envoyproxy.io/v1alpha1", "BackendTrafficPolicy", OPENAI_ROUTE, policy)
