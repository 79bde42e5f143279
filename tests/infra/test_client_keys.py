"""The objects that copy client keys from Secrets Manager to the gateway."""

from __future__ import annotations

import json
from typing import Any

from infra.platform import client_keys
from infra.serving.model_access import ModelAccess
from spec.names import client_secret
from spec.settings.clients import Client
from tests import crds
from tests.infra.access import ACCOUNT


def objects() -> dict[str, dict[str, Any]]:
    found = client_keys.manifests("triton-prod", "us-west-2", ("team-a", "team-b"))
    return {manifest["kind"]: manifest for manifest in found}


def test_the_definitions_know_every_field() -> None:
    for kind, manifest in objects().items():
        assert crds.problems("gateway-helm" if kind == "ReferenceGrant" else "external-secrets", manifest) == []


def test_each_clients_keys_get_its_name_and_are_read_again_every_minute() -> None:
    spec = objects()["ExternalSecret"]["spec"]
    assert spec["secretStoreRef"] == {"kind": "SecretStore", "name": objects()["SecretStore"]["metadata"]["name"]}
    assert spec["refreshInterval"] == "60s"
    assert spec["dataFrom"] == [
        {
            "extract": {"key": f"triton-prod/clients/{client}"},
            "rewrite": [{"regexp": {"source": "^(.+)$", "target": f"{client}.${{1}}"}}],
        }
        for client in ("team-a", "team-b")
    ]


def test_the_policies_of_routes_may_read_the_one_secret_and_they_name_it() -> None:
    made = objects()
    target = made["ExternalSecret"]["spec"]["target"]["name"]
    grant = made["ReferenceGrant"]
    (reference,) = ModelAccess({"a": Client()}, None).http_spec([])["apiKeyAuth"]["credentialRefs"]
    assert (reference["name"], reference["namespace"]) == (target, grant["metadata"]["namespace"])
    assert grant["spec"] == {
        "from": [{"group": "gateway.envoyproxy.io", "kind": "SecurityPolicy", "namespace": "triton"}],
        "to": [{"group": "", "kind": "Secret", "name": target}],
    }


def test_the_operator_reads_the_keys_of_this_stack_alone() -> None:
    (statement,) = json.loads(client_keys.policy(ACCOUNT, "triton-prod"))["Statement"]
    assert statement["Action"] == ["secretsmanager:GetSecretValue", "secretsmanager:DescribeSecret"]
    assert statement["Resource"] == (
        f"arn:aws:secretsmanager:us-west-2:123456789012:secret:{client_secret('triton-prod', '*')}"
    )
