"""Clients of the gateway for the end-to-end tests: the program's objects for them, their keys and tokens."""

from __future__ import annotations

import base64
import json
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx
import tritonclient.grpc as triton
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from tritonclient.utils import InferenceServerException

from examples.gateway import headers
from infra.platform import client_keys
from infra.platform import gateway as platform
from infra.serving import model_access
from infra.serving.model_access import ModelAccess
from spec.names import CLIENT_KEYS, EXTERNAL_SECRETS, TRITON_NAMESPACE
from spec.settings.clients import Client, Jwt
from spec.settings.gateway import Gateway as Section
from tests.system.e2e import gateway_objects
from tests.system.e2e.gateway_load import ANSWERED, BODY, MODEL, infer_path, tensors
from twin.cluster.kube_api import KubeClient

ISSUER, AUDIENCE = "https://login.example.com/", "inference"
CLIENTS = {
    "everything": Client(),
    "team-a": Client(models=(MODEL,)),
    "team-b": Client(models=("another",)),
    "slow": Client.model_validate({"requestsPerSecond": 1}),
}
SERVED = (MODEL, "other")
"""The models of the pods, for the program: over gRPC a client needs access to all models of the pods."""
Keys = Mapping[str, Mapping[str, str]]
_SECONDS = 10.0


def by_keys(kube: KubeClient, keys: Keys) -> ModelAccess:
    """Write the clients' keys as the operator does, and return the access to MODEL by these keys."""
    gateway_objects.apply(kube, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": EXTERNAL_SECRETS.namespace}})
    write_keys(kube, keys)
    grant = next(
        one for one in client_keys.manifests("triton-local", "us-west-2", CLIENTS) if one["kind"] == "ReferenceGrant"
    )
    gateway_objects.apply(kube, grant)
    return ModelAccess(CLIENTS, None).of_model(MODEL, SERVED)


def write_keys(kube: KubeClient, keys: Keys) -> None:
    """Write the Secret that the operator creates from the secrets of all clients."""
    data = {
        f"{client}.{slot}": base64.b64encode(key.encode()).decode()
        for client, own in keys.items()
        for slot, key in own.items()
    }
    metadata = {"name": CLIENT_KEYS, "namespace": EXTERNAL_SECRETS.namespace}
    gateway_objects.apply(kube, {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": data})


def new_key() -> str:
    """Return a key as `stackctl keys` generates it."""
    return secrets.token_urlsafe(32)


@contextmanager
def closed(kube: KubeClient) -> Iterator[None]:
    """Apply the program's objects for the whole gateway with clients during the block.

    At the end it removes all access policies, including MODEL's.
    """
    refusal = model_access.refusal()
    section = Section.model_validate({"replicas": 2, "cpu": "1", "memoryMiB": 512, "clients": {"a": {}}})
    path = gateway_objects.path("ClientTrafficPolicy", "gateway.envoyproxy.io/v1alpha1", refusal["metadata"])
    before = kube.get(path)
    shown = {"apiVersion": before["apiVersion"], "kind": before["kind"], "metadata": refusal["metadata"]}
    gateway_objects.apply(kube, {**shown, "spec": platform.client_policy_spec(section)})
    gateway_objects.apply(kube, refusal)
    try:
        yield
    finally:
        own = [{"name": name, "namespace": TRITON_NAMESPACE} for name in (MODEL, f"{MODEL}.grpc")]
        for metadata in (refusal["metadata"], *own):
            policy = gateway_objects.path("SecurityPolicy", refusal["apiVersion"], metadata)
            if kube.find(policy) is not None:
                kube.delete(policy, {})
        gateway_objects.apply(kube, {**shown, "spec": before["spec"]})


class Provider:
    """An identity provider. Envoy gets its keys inline, because it cannot fetch them."""

    def __init__(self) -> None:
        self._key = rsa.generate_private_key(65537, 2048)
        jwt = {"issuer": ISSUER, "jwksUri": f"{ISSUER}keys", "audiences": (AUDIENCE,), "clientClaim": "client_id"}
        self.access = ModelAccess(CLIENTS, Jwt.model_validate(jwt)).of_model(MODEL, SERVED)

    def known(self, policy: dict[str, Any]) -> dict[str, Any]:
        """Return the policy with this provider's public key."""
        numbers = self._key.public_key().public_numbers()
        key = {"kty": "RSA", "alg": "RS256", "kid": "one", "n": _number(numbers.n), "e": _number(numbers.e)}
        for provider in policy["spec"]["jwt"]["providers"]:
            del provider["remoteJWKS"]
            provider["localJWKS"] = {"type": "Inline", "inline": json.dumps({"keys": [key]})}
        return policy

    def token(self, **claims: Any) -> str:
        """Return team-a's token for this gateway, valid for an hour, or a token with other claims (RFC 7515)."""
        own = {"iss": ISSUER, "aud": AUDIENCE, "client_id": "team-a", "exp": int(time.time()) + 3600}
        head = _text(json.dumps({"alg": "RS256", "typ": "JWT", "kid": "one"}).encode())
        body = _text(json.dumps({**own, **claims}).encode())
        signature = self._key.sign(f"{head}.{body}".encode(), padding.PKCS1v15(), SHA256())
        return f"{head}.{body}.{_text(signature)}"


def _text(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _number(value: int) -> str:
    return _text(value.to_bytes((value.bit_length() + 7) // 8, "big"))


def http(address: str, credential: str | None = None, *, model: str = MODEL, **named: str) -> int:
    """Return the status of one request over HTTP."""
    if credential is not None:
        named["authorization"] = f"Bearer {credential}"
    answer = httpx.post(f"http://{address}{infer_path(model)}", json=BODY, headers=named, trust_env=False, timeout=_SECONDS)
    return answer.status_code


def grpc(address: str, credential: str | None = None) -> str:
    """Return the result of one request over gRPC: ANSWERED, or its status."""
    named = {**headers(MODEL), **({"authorization": f"Bearer {credential}"} if credential is not None else {})}
    with triton.InferenceServerClient(address) as client:
        try:
            client.infer(MODEL, tensors(), headers=named, client_timeout=_SECONDS)
        except InferenceServerException as error:
            return str(error.status())
    return ANSWERED
