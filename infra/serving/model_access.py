"""Who may ask a model through the gateway: how Envoy knows its clients, what each may ask, and how often.

Envoy Gateway's filters run in this order: API keys or tokens, authorization, rate limits. The first puts the client into a
header, which the others read; what a client itself sends in it is removed before (`infra.platform.gateway`).
https://github.com/envoyproxy/gateway/blob/v1.9.0/internal/xds/translator/httpfilters.go
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from spec.names import CLIENT_HEADER, CLIENT_KEYS, EXTERNAL_SECRETS, GATEWAY, GATEWAY_NAMESPACE, KEY_SLOTS
from spec.settings.clients import Client, Jwt

Manifest = dict[str, Any]

_PROVIDER = "clients"
_KEY_HEADERS = ("authorization", "x-api-key")
"""Where a client sends its key; of `Authorization: Bearer <key>` Envoy takes what comes after the word."""


@dataclass(frozen=True)
class ModelAccess:
    """The clients that may ask one model: over HTTP, and those that may over gRPC. `jwt` None: they have API keys."""

    clients: Mapping[str, Client]
    jwt: Jwt | None
    over_grpc: Mapping[str, Client] = field(default_factory=dict)

    def of_model(self, model: str, served: Collection[str]) -> ModelAccess:
        """Return the same with the clients of one model alone. `served`: the models of the pods that are asked for it.

        Over HTTP the path says which model is asked. Over gRPC the message does, which no proxy reads: whoever is let in to
        these pods may ask each of their models, whatever the route is called.
        """
        may = {name: client for name, client in self.clients.items() if client.models is None or model in client.models}
        over_grpc = {
            name: client for name, client in may.items() if client.models is None or set(served) <= set(client.models)
        }
        return ModelAccess(may, self.jwt, over_grpc)

    def http_spec(self, targets: list[Manifest]) -> Manifest:
        """Return the policy of a model's routes over HTTP: 401 for who is unknown, 403 for who may not ask this model."""
        return self._spec(targets, self.clients)

    def grpc_spec(self, targets: list[Manifest]) -> Manifest:
        """Return that over gRPC: PERMISSION_DENIED also for who may ask this model, and not all that its pods serve."""
        return self._spec(targets, self.over_grpc)

    def rate_rules(self, unit: str, seconds: int) -> list[Manifest]:
        """Return the limits of those clients that have their own. Their requests do not count for the model's limit.

        All limits of a route have one unit: Envoy Gateway refuses one that is no multiple of the model's own.
        """
        return [
            {
                "clientSelectors": [{"headers": [self._header_of(name, client)]}],
                "limit": {"requests": client.requests_per_second * seconds, "unit": unit},
            }
            for name, client in self.clients.items()
            if client.requests_per_second is not None
        ]

    def _spec(self, targets: list[Manifest], clients: Mapping[str, Client]) -> Manifest:
        return {"targetRefs": targets, **self._authentication(), "authorization": self._authorization(clients)}

    def _authentication(self) -> Manifest:
        if self.jwt is None:
            return {
                "apiKeyAuth": {
                    "credentialRefs": [{"kind": "Secret", "name": CLIENT_KEYS, "namespace": EXTERNAL_SECRETS.namespace}],
                    "extractFrom": [{"headers": list(_KEY_HEADERS)}],
                    "forwardClientIDHeader": CLIENT_HEADER,
                    # No key reaches the servers of models.
                    "sanitize": True,
                }
            }
        return {
            "jwt": {
                "providers": [
                    {
                        "name": _PROVIDER,
                        "issuer": self.jwt.issuer,
                        "audiences": list(self.jwt.audiences),
                        "remoteJWKS": {"uri": self.jwt.jwks_uri},
                        "claimToHeaders": [{"claim": self.jwt.client_claim, "header": CLIENT_HEADER}],
                        # By default a token in the URL would do as well, and URLs are logged.
                        "extractFrom": {"headers": [{"name": "Authorization", "valuePrefix": "Bearer "}]},
                    }
                ]
            }
        }

    def _authorization(self, clients: Mapping[str, Client]) -> Manifest:
        rules = [
            {"name": name, "action": "Allow", "principal": self._principal(name, client)} for name, client in clients.items()
        ]
        return {"defaultAction": "Deny", **({"rules": rules} if rules else {})}

    def _principal(self, name: str, client: Client) -> Manifest:
        if self.jwt is None:
            return {"headers": [{"name": CLIENT_HEADER, "values": [f"{name}.{slot}" for slot in KEY_SLOTS]}]}
        claim = {"name": self.jwt.client_claim, "values": [client.claim or name]}
        return {"jwt": {"provider": _PROVIDER, "claims": [claim]}}

    def _header_of(self, name: str, client: Client) -> Manifest:
        """Return what the header of a client's requests is: with a key, its name and which of its keys it was."""
        if self.jwt is not None:
            return {"type": "Exact", "name": CLIENT_HEADER, "value": client.claim or name}
        return {"type": "RegularExpression", "name": CLIENT_HEADER, "value": rf"{name}\.({'|'.join(KEY_SLOTS)})"}


def refusal_spec() -> Manifest:
    """Return the policy of the whole gateway, for routes that have none of their own: nobody may ask.

    A route's own policy takes its place and is not added to it, so that a route that somebody makes by hand, or one whose
    policy is gone, is closed and not open.
    https://gateway.envoyproxy.io/docs/concepts/gateway_api_extensions/security-policy/
    """
    target = {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": GATEWAY}
    return {"targetRefs": [target], "authorization": {"defaultAction": "Deny"}}


def refusal() -> Manifest:
    """Return the object of `refusal_spec`."""
    return {
        "apiVersion": "gateway.envoyproxy.io/v1alpha1",
        "kind": "SecurityPolicy",
        "metadata": {"name": GATEWAY, "namespace": GATEWAY_NAMESPACE},
        "spec": refusal_spec(),
    }
