"""Mistakes in the gateway's access (`clients`, `jwt`) and name (`domain`), and their messages."""

from __future__ import annotations

from typing import Any

import pytest

from tests.spec.stack_config import complaints, settings

CERTIFICATE = "arn:aws:acm:us-west-2:123456789012:certificate/01234567-89ab-cdef-0123-456789abcdef"
PLAIN: dict[str, Any] = {"replicas": 2, "cpu": "1", "memoryMiB": 512}
JWT = {"issuer": "https://login.example.com/", "jwksUri": "https://login.example.com/keys", "audiences": ["inference"]}
DOMAIN = {"name": "inference.example.com", "hostedZoneId": "Z0123456789ABCDEFGHIJ"}
PUBLIC = {"exposure": "public", "allowedCidrs": ["203.0.113.0/24"]}


def gateway(**keys: Any) -> dict[str, Any]:
    return {"gateway": {**PLAIN, "certificateArn": CERTIFICATE, **keys}}


def test_without_clients_whoever_reaches_the_gateway_may_ask() -> None:
    found = settings(gateway()).gateway
    assert found is not None
    assert (found.clients, found.jwt, found.domain) == (None, None, None)


@pytest.mark.parametrize(
    "changes",
    [
        gateway(clients={"team-a": {}}),
        gateway(clients={"team-a": {"models": ["resnet50"], "requestsPerSecond": 50}, "b": {}}),
        gateway(clients={"team-a": {"claim": "0oa1b2c3"}, "b": {}}, jwt={**JWT, "clientClaim": "realm.client_id"}),
        gateway(**PUBLIC, clients={"team-a": {}}),
        {"gateway": {**PLAIN, "domain": DOMAIN, "clients": {"team-a": {}}}},
        {"gateway": {**PLAIN, "domain": DOMAIN, "tlsSecret": "inference-tls"}},
        {"gateway": {**PLAIN, "domain": {**DOMAIN, "publicZoneId": "Z1"}}},
    ],
    ids=str,
)
def test_these_are_accepted(changes: dict[str, Any]) -> None:
    settings(changes)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        *(
            (
                {"gateway": {**PLAIN, "domain": {**DOMAIN, "name": f"inference.{ending}"}}},
                f"domain.name: 'inference.{ending}' ends in .{ending}, for which ACM gives nobody a certificate; give a "
                "name below a domain of yours, or a certificateArn of a private certificate",
            )
            for ending in ("amazonaws.com", "cloudfront.net", "local", "internal", "home.arpa", "corp")
        ),
        (gateway(clients={}), "clients: is empty, so that nobody may ask; give one or more, or remove the key"),
        (
            gateway(clients={"Team_A": {}}),
            "clients.Team_A: 'Team_A' is not the name of a client; use up to 40 lower-case letters, digits and hyphens, a "
            "letter first",
        ),
        (
            gateway(clients={"a": {"models": []}}),
            "clients.a.models: is empty, so that it may ask nothing; list its models, or remove the key for all",
        ),
        (
            gateway(clients={"a": {"models": ["resnet50", "resnet50"]}}),
            "clients.a.models[1]: resnet50 is listed twice; list each model once",
        ),
        (
            gateway(clients={"a": {"models": ["resnet"]}}),
            "clients.a.models[0]: the release has no model resnet; it has resnet50",
        ),
        (
            gateway(clients={"a": {"requestsPerSecond": 0}}),
            "clients.a.requestsPerSecond: 0 is out of range; use 1 to 1000000 requests per second",
        ),
        (
            gateway(clients={"a": {"claim": "x"}}),
            "clients.a.claim: is of tokens, and there is no jwt; remove it, or give jwt",
        ),
        (
            gateway(clients={"a": {"claim": "b"}, "b": {}}, jwt=JWT),
            "clients.b: a token with b is the client a already; give another claim",
        ),
        (
            gateway(clients={"a": {"claim": "x y"}}, jwt=JWT),
            "clients.a.claim: 'x y' cannot be told from others by Envoy; give 1 to 256 ASCII characters without spaces",
        ),
        (
            gateway(clients={f"c{number}": {"requestsPerSecond": 1} for number in range(16)}),
            "clients: 16 of them have requestsPerSecond, and Envoy Gateway takes 15 for a model; remove it from those that "
            "may share the model's own rate",
        ),
        (gateway(jwt=JWT), "jwt: says by what clients are known, and there are none; give clients"),
        (
            gateway(clients={"a": {}}, jwt={**JWT, "audiences": []}),
            "jwt.audiences: has 0; list 1 to 8: without one, the provider's tokens for other services would do",
        ),
        (
            gateway(clients={"a": {}}, jwt={**JWT, "audiences": ["x", "x"]}),
            "jwt.audiences[1]: x is listed twice; list each once",
        ),
        (
            gateway(clients={"a": {}}, jwt={**JWT, "jwksUri": "http://login.example.com/keys"}),
            "jwt.jwksUri: 'http://login.example.com/keys' is not an https address; give one like "
            "https://wiki.example.com/triton",
        ),
        (
            gateway(clients={"a": {}}, jwt={**JWT, "issuer": "https://" + "i" * 60 + ".example.com/" + "x" * 200}),
            "jwt.issuer: has 281 characters, and Envoy Gateway takes 253; use a shorter address",
        ),
        *(
            (
                gateway(clients={"a": {}}, jwt={**JWT, key: "https://login.example.com/keys#now"}),
                f"jwt.{key}: has a fragment (#), which no server is asked for and no issuer has; remove it",
            )
            for key in ("issuer", "jwksUri")
        ),
        (
            gateway(clients={"a": {}}, jwt={**JWT, "clientClaim": "client id"}),
            "jwt.clientClaim: 'client id' is not the name of a claim; give one like client_id; a dot leads into a claim "
            "that is an object",
        ),
        (
            gateway(domain={**DOMAIN, "name": "Inference.example.com"}),
            "domain.name: 'Inference.example.com' is not a domain name in lower case; give one like inference.example.com",
        ),
        (
            gateway(domain={**DOMAIN, "name": "*.example.com"}),
            "domain.name: '*.example.com' is for many names, and clients ask one; give one like inference.example.com",
        ),
        (
            gateway(domain={**DOMAIN, "name": f"{'a' * 60}.example.com"}),
            "domain.name: has 72 characters, and ACM takes 64; give a shorter one",
        ),
        (
            gateway(domain={**DOMAIN, "hostedZoneId": "/hostedzone/Z0123"}),
            "domain.hostedZoneId: '/hostedzone/Z0123' is not the id of a hosted zone; `aws route53 "
            "list-hosted-zones-by-name` prints one like Z0123456789ABCDEFGHIJ",
        ),
        (
            gateway(domain={**DOMAIN, "publicZoneId": "example.com"}),
            "domain.publicZoneId: 'example.com' is not the id of a hosted zone; `aws route53 "
            "list-hosted-zones-by-name` prints one like Z0123456789ABCDEFGHIJ",
        ),
        (
            {"gateway": {**PLAIN, "domain": {**DOMAIN, "publicZoneId": DOMAIN["hostedZoneId"]}}},
            "domain.publicZoneId: is hostedZoneId; remove it, or give the public zone beside a private one",
        ),
        (
            gateway(domain={**DOMAIN, "publicZoneId": "Z1"}),
            "domain.publicZoneId: is for ACM's certificate, and with certificateArn none is asked for; remove one of the "
            "two",
        ),
    ],
)
def test_a_mistake_is_said_in_a_sentence(changes: dict[str, Any], said: str) -> None:
    assert complaints(changes) == [f"gateway.{said}"]


def test_keys_and_tokens_are_not_sent_in_the_clear() -> None:
    found = complaints({"environment": "dev", "gateway": {**PLAIN, "clients": {"a": {}}}}, "dev")
    assert [line for line in found if line.startswith("gateway")] == [
        "gateway.clients: send keys or tokens, and without TLS whoever is on the way reads them; give domain or "
        "certificateArn"
    ]


def test_a_public_gateway_without_clients_is_refused_in_prod_and_warned_of_elsewhere() -> None:
    assert [line for line in complaints(gateway(**PUBLIC), "prod") if line.startswith("gateway")] == [
        "gateway.clients: prod invariant 'clients are known': whoever sends from an address of allowedCidrs may ask every "
        "model; say who may ask (docs/access.md), or use exposure: internal"
    ]
    told = [str(found) for found in settings(gateway(**PUBLIC)).warnings if found.path == "gateway.clients"]
    assert told == [
        "gateway.clients: is not given, so that whoever sends from an address of allowedCidrs may ask every model; say who "
        "may ask (docs/access.md)"
    ]
    assert not [found for found in settings(gateway()).warnings if found.path == "gateway.clients"]
