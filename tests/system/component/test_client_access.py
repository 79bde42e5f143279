"""A stack whose gateway authenticates clients by keys, under its own domain: its resources, their order, its destroy."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from infra import app
from spec.settings import load
from spec.versions import PROJECT
from tests.bootstrap import aws_calls
from tests.bootstrap.roles import deploy, preview
from tests.paths import ROOT
from tests.system.component.engine.account import fresh_account, living, seed_roles
from tests.system.component.engine.lifecycle import Refresh, destroy, refresh
from tests.system.component.engine.program import run
from tests.system.component.engine.providers import LOAD_BALANCER
from tests.system.component.engine.recording import Recording
from tests.system.component.engine.stack_run import TODAY, required_config
from twin.aws.base.clients import Clients
from twin.aws.iam.authorization import refusals

STACK = "staging"
CERTIFICATE = "aws:acm/certificate:Certificate"
RECORD = "aws:route53/record:Record"
SECURITY = "kubernetes:gateway.envoyproxy.io/v1alpha1:SecurityPolicy"
PROXY = "kubernetes:gateway.envoyproxy.io/v1alpha1:EnvoyProxy"
HTTP_ROUTE = "kubernetes:gateway.networking.k8s.io/v1:HTTPRoute"
GRPC_ROUTE = "kubernetes:gateway.networking.k8s.io/v1:GRPCRoute"
EXTERNAL_SECRET = "kubernetes:external-secrets.io/v1:ExternalSecret"


@dataclass(frozen=True)
class Zones:
    """The hosted zones of the domain: one for VPCs, one for all others."""

    private: str
    public: str


def _zones(clients: Clients) -> Zones:
    vpc = {"VPCRegion": "us-west-2", "VPCId": clients("ec2").describe_vpcs()["Vpcs"][0]["VpcId"]}
    private = {"VPC": vpc, "HostedZoneConfig": {"Comment": "", "PrivateZone": True}}
    ids = [
        clients("route53").create_hosted_zone(Name="example.com", CallerReference=str(number), **more)["HostedZone"]["Id"]
        for number, more in enumerate((private, {}))
    ]
    return Zones(*(id.rpartition("/")[2] for id in ids))


def config(zones: Zones) -> dict[str, Any]:
    """Return staging without optional sections, except a gateway with two clients and a domain in a private zone."""
    found = required_config(ROOT, STACK)
    found[f"{PROJECT}:nodes"] = {"system": found[f"{PROJECT}:nodes"]["system"]}
    found[f"{PROJECT}:cluster"]["deletionProtection"] = False
    found[f"{PROJECT}:gpu"]["pools"][0] |= {"min": 1, "desired": 2}
    found[f"{PROJECT}:triton"] = {**found[f"{PROJECT}:triton"], "autoscaler": "none", "replicas": 2}
    found[f"{PROJECT}:models"] |= {
        "release": {"id": "3f2a9c1b7d04" + 52 * "0", "bytes": 123456, "models": {"first": 1, "second": 1}}
    }
    found[f"{PROJECT}:models"].pop("serving", None)
    found[f"{PROJECT}:gateway"] = {
        "replicas": 2,
        "cpu": "1",
        "memoryMiB": 512,
        "domain": {"name": "inference.example.com", "hostedZoneId": zones.private, "publicZoneId": zones.public},
        "clients": {"team-a": {"models": ["first"], "requestsPerSecond": 50}, "team-b": {}},
    }
    return found


@dataclass(frozen=True)
class Life:
    preview: Recording
    up: Recording
    zones: Zones
    refreshed: Refresh
    left: dict[str, list[str]]


@pytest.fixture(scope="module")
def life() -> Iterator[Life]:
    """Preview, bring up, record and destroy the stack in a separate moto account."""
    with fresh_account(), contextlib.chdir(ROOT):
        clients = Clients("us-west-2")
        zones = _zones(clients)
        settings = load(config(zones), STACK, today=TODAY)
        seed_roles(clients, settings.cluster)
        before = living(clients)

        def deployed(*, preview: bool) -> Recording:
            return run(
                lambda: app.deploy(settings),
                project=PROJECT,
                stack=STACK,
                config=config(zones),
                root=ROOT,
                clients=clients,
                preview=preview,
            )

        preview, up = deployed(preview=True), deployed(preview=False)
        refreshed = refresh(clients, up)
        destroy(clients, up)
        after = living(clients)
    yield Life(
        preview,
        up,
        zones,
        refreshed,
        {kind: left for kind in after if (left := sorted(set(after[kind]) - set(before.get(kind, ()))))},
    )


@pytest.fixture
def up(life: Life) -> Recording:
    return life.up


def test_tls_ends_at_the_load_balancer_with_the_certificate_once_it_is_issued(up: Recording) -> None:
    certificate = up.one(CERTIFICATE)
    assert (certificate.checked["domainName"], certificate.checked["validationMethod"]) == ("inference.example.com", "DNS")
    service = up.one(PROXY).checked["spec"]["provider"]["kubernetes"]["envoyService"]
    assert service["annotations"]["service.beta.kubernetes.io/aws-load-balancer-ssl-cert"] == certificate.id
    order = [item.urn for item in up.registrations]
    issued = up.one("aws:acm/certificateValidation:CertificateValidation")
    assert order.index(up.one(RECORD, "gateway-certificate-proof").urn) < order.index(issued.urn)
    assert order.index(issued.urn) < order.index(up.one(PROXY).urn)


def test_the_proof_is_in_the_zone_that_acm_sees_and_the_name_in_the_other(life: Life) -> None:
    assert life.up.one(RECORD, "gateway-record").checked["zoneId"] == life.zones.private
    assert life.up.one(RECORD, "gateway-certificate-proof").checked["zoneId"] == life.zones.public


def test_the_domain_leads_to_the_load_balancer_that_the_gateway_got(life: Life) -> None:
    record = life.up.one(RECORD, "gateway-record").checked
    (target,) = record["aliases"]
    assert (record["name"], record["type"]) == ("inference.example.com", "A")
    assert (target["name"], target["zoneId"]) == (LOAD_BALANCER, "Z18D5FSROUN65G")
    gateway = life.up.one("kubernetes:gateway.networking.k8s.io/v1:Gateway").checked
    assert gateway["metadata"]["annotations"] == {"pulumi.com/waitFor": "jsonpath={.status.addresses[0].value}"}


def test_the_outputs_say_where_to_ask(up: Recording) -> None:
    assert up.exports["gatewayUrl"] == "https://inference.example.com"
    assert up.exports["gatewayGrpc"] == "inference.example.com:8443"
    # Only over HTTP, because its pods also serve the second model.
    assert up.exports["clientRates"] == {"team-a": {"first": 100}}


def test_each_model_has_its_policy_before_its_route_and_all_else_is_closed_after_them(up: Recording) -> None:
    order = [item.urn for item in up.registrations]
    refusal = up.one(SECURITY, "routes-refusal")
    assert "targetRefs" in refusal.checked["spec"]
    for model in ("first", "second"):
        for policy, route in (
            (up.one(SECURITY, f"routes-{model}-securitypolicy"), up.one(HTTP_ROUTE, f"routes-{model}-httproute")),
            (up.one(SECURITY, f"routes-{model}.grpc-securitypolicy"), up.one(GRPC_ROUTE, f"routes-{model}-grpcroute")),
        ):
            assert policy.urn in route.depends_on
            assert policy.urn in refusal.depends_on
            assert order.index(policy.urn) < order.index(refusal.urn)
    assert len(up.of_type(SECURITY)) == 5


def test_the_operator_comes_after_the_gateway_and_reads_the_keys_of_the_clients(up: Recording) -> None:
    keys = [item["extract"]["key"] for item in up.one(EXTERNAL_SECRET).checked["spec"]["dataFrom"]]
    assert keys == ["triton-staging/clients/team-a", "triton-staging/clients/team-b"]
    grant = up.one("kubernetes:gateway.networking.k8s.io/v1:ReferenceGrant")
    order = [item.urn for item in up.registrations]
    assert order.index(up.one("triton:platform:InferenceGateway").urn) < order.index(grant.urn)


def test_no_key_is_in_the_state(up: Recording) -> None:
    assert [item.type for item in up.registrations if "Secret" in item.type.rpartition(":")[2]] == [
        "kubernetes:external-secrets.io/v1:SecretStore",
        "kubernetes:external-secrets.io/v1:ExternalSecret",
    ]
    assert not [item.type for item in up.registrations if item.type.startswith("aws:secretsmanager")]


def test_a_preview_shows_the_same_resources(life: Life) -> None:
    assert {item.urn for item in life.preview.registrations} == {item.urn for item in life.up.registrations}


def test_the_roles_of_the_workflows_may_make_and_read_all_of_it(up: Recording) -> None:
    stack = aws_calls.of_recording(up)
    zones = [up.one(RECORD, name).checked["zoneId"] for name in ("gateway-record", "gateway-certificate-proof")]
    assert list(refusals(deploy("staging", zones=zones), aws_calls.calls(stack))) == []
    assert list(refusals(preview(*zones), aws_calls.reads(stack))) == []


def test_a_refresh_finds_what_was_made_and_a_destroy_leaves_nothing(life: Life) -> None:
    assert (life.refreshed.outputs, life.refreshed.inputs) == ([], [])
    assert life.left == {}
