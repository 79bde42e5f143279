"""Access to models through the gateway: authentication, permissions and rate limits of clients.

Envoy Gateway's filters run in this order: API keys or tokens, authorization, rate limits. The first sets a header with the
client, which the others read. Envoy removes the header from client requests first (`infra.platform.gateway`).
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
"""The headers with a client's key; of `Authorization: Bearer <key>` Envoy uses the part after the word."""


@dataclass(frozen=True)
class ModelAccess:
    """The clients that may call one model, over HTTP and over gRPC. They use API keys if `jwt` is None."""

    clients: Mapping[str, Client]
    jwt: Jwt | None
    over_grpc: Mapping[str, Client] = field(default_factory=dict)

    def of_model(self, model: str, served: Collection[str]) -> ModelAccess:
        """Return the access to one model only. `served` are the models of the pods that serve it.

        Over HTTP the path names the model. Over gRPC the message names it, and proxies do not read messages. So a client
        with access to these pods may call each of their models, whatever the route's name.
        """
        may = {name: client for name, client in self.clients.items() if client.models is None or model in client.models}
        over_grpc = {
            name: client for name, client in may.items() if client.models is None or set(served) <= set(client.models)
        }
        return ModelAccess(may, self.jwt, over_grpc)

    def http_spec(self, targets: list[Manifest]) -> Manifest:
        """Return the policy of a model's HTTP routes: 401 for unknown clients, 403 for clients without access to the
        model."""
        return self._spec(targets, self.clients)

    def grpc_spec(self, targets: list[Manifest]) -> Manifest:
        """Return the policy of a model's gRPC route. It denies clients that may not call all models of the pods."""
        return self._spec(targets, self.over_grpc)

    def rate_rules(self, unit: str, seconds: int) -> list[Manifest]:
        """Return the rate limits of clients with their own rate. Their requests do not count for the model's limit.

        All limits of a route have the same unit, because Envoy Gateway refuses a unit that is no multiple of the model's.
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
                    # No key reaches the model servers.
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
                        # By default a token in the URL would be valid too, and URLs are logged.
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
        """Return the match of a client's header; with API keys it contains the client's name and the key's slot."""
        if self.jwt is not None:
            return {"type": "Exact", "name": CLIENT_HEADER, "value": client.claim or name}
        return {"type": "RegularExpression", "name": CLIENT_HEADER, "value": rf"{name}\.({'|'.join(KEY_SLOTS)})"}


def refusal_spec() -> Manifest:
    """Return the policy of the whole gateway, which denies all requests of routes without their own policy.

    A route's own policy replaces it. So a manually created route, or a route whose policy is deleted, denies all requests.
    https://gateway.envoyproxy.io/docs/concepts/gateway_api_extensions/security-policy/
    """
    target = {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": GATEWAY}
    return {"targetRefs": [target], "authorization": {"defaultAction": "Deny"}}


def refusal() -> Manifest:
    """Return the object with the spec of `refusal_spec`."""
    return {
        "apiVersion": "gateway.envoyproxy.io/v1alpha1",
        "kind": "SecurityPolicy",
        "metadata": {"name": GATEWAY, "namespace": GATEWAY_NAMESPACE},
        "spec": refusal_spec(),
    }
