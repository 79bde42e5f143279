"""Certificates and records: what AWS refuses, and what a refresh and an update find."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.twin.aws.refusals import Refusal, check, ids
from tests.twin.aws.world import World
from twin.aws import table
from twin.aws.base.clients import Clients

CERTIFICATE = "aws:acm/certificate:Certificate"
VALIDATION = "aws:acm/certificateValidation:CertificateValidation"
RECORD = "aws:route53/record:Record"
NAME = "inference.example.com"


@pytest.fixture(scope="module")
def world(clients: Clients) -> Iterator[World]:
    world = World(clients)
    world.make(CERTIFICATE, "certificate", domainName=NAME, validationMethod="DNS", tags={"owner": "me"})
    world.make(RECORD, "record", **_record(world))
    yield world


def _zone(world: World) -> str:
    zones = world.clients("route53").list_hosted_zones()["HostedZones"]
    if not zones:
        zones = [world.clients("route53").create_hosted_zone(Name="example.com", CallerReference="x")["HostedZone"]]
    return str(zones[0]["Id"]).rpartition("/")[2]


def _private_zone(world: World) -> str:
    vpc = {"VPCRegion": "us-west-2", "VPCId": world.clients("ec2").describe_vpcs()["Vpcs"][0]["VpcId"]}
    private = {"Comment": "", "PrivateZone": True}
    made = world.clients("route53").create_hosted_zone(
        Name="example.com", CallerReference="y", VPC=vpc, HostedZoneConfig=private
    )
    return str(made["HostedZone"]["Id"]).rpartition("/")[2]


def _record(world: World, **changes: Any) -> dict[str, Any]:
    inputs = {"zoneId": _zone(world), "name": NAME, "type": "CNAME", "ttl": 60, "records": ["a.example.com"], **changes}
    return {key: value for key, value in inputs.items() if value is not None}


REFUSALS = [
    Refusal(
        "a certificate by mail",
        CERTIFICATE,
        lambda world: {"domainName": NAME, "validationMethod": "EMAIL"},
        "aws:acm/certificate:Certificate: validationMethod: DNS is the only one that the twin has",
    ),
    Refusal(
        "a certificate that nobody has asked for",
        VALIDATION,
        lambda world: {"certificateArn": "arn:aws:acm:us-west-2:123456789012:certificate/none"},
        "there is no certificate arn:aws:acm:us-west-2:123456789012:certificate/none",
    ),
    Refusal(
        "a name of another zone",
        RECORD,
        lambda world: _record(world, name="inference.example.org", zoneId=_zone(world)),
        "record inference.example.org: no hosted zone {zone}, or it is not for that name",
    ),
    Refusal(
        "no such zone",
        RECORD,
        lambda world: _record(world, zoneId="Z0"),
        f"record {NAME}: no hosted zone Z0, or it is not for that name",
    ),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=ids(REFUSALS))
def test_a_mistake_is_refused(world: World, refusal: Refusal) -> None:
    told = refusal.message.replace("{zone}", _zone(world))
    check(world, Refusal(refusal.mistake, refusal.token, refusal.inputs, told))


def test_a_certificate_is_not_issued_before_its_record_is_there(world: World) -> None:
    (proof,) = world.made["certificate"].outputs["domainValidationOptions"]
    arn = world.id("certificate")
    message = (
        f"certificate {arn} stays PENDING_VALIDATION: no public hosted zone has the record {proof['resourceRecordName']}, "
        f"CNAME {proof['resourceRecordValue']}"
    )
    check(world, Refusal("early", VALIDATION, lambda _: {"certificateArn": arn}, message))
    own = {"name": proof["resourceRecordName"], "records": [proof["resourceRecordValue"]]}
    world.make(RECORD, "unseen", **_record(world, **own, zoneId=_private_zone(world)))
    check(world, Refusal("in a zone that nobody outside sees", VALIDATION, lambda _: {"certificateArn": arn}, message))
    world.make(RECORD, "proof", **_record(world, **own))
    assert world.make(VALIDATION, "issued", certificateArn=arn).id == arn


def test_a_record_that_somebody_has_changed_shows_in_a_refresh_and_is_changed_back(world: World) -> None:
    made, handler = world.made["record"], table.handler(RECORD)
    handler.update(world.clients, made.id, dict(made.outputs), {**made.inputs, "records": ["elsewhere.example.com"]})
    found = world.read("record")
    assert found is not None
    assert found["records"] == ["elsewhere.example.com"]
    handler.update(world.clients, made.id, found, dict(made.inputs))
    assert world.read("record") == made.outputs
