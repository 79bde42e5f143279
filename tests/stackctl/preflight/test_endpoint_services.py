"""Endpoint services: moto offers all of a stack's; botocore's Stubber answers for those that a region lacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from botocore.stub import Stubber

from spec.endpoints import INTERFACE_SERVICES, interface_service
from stackctl.preflight.checks import endpoint_services
from stackctl.preflight.checks.check import Status, Subject
from stackctl.preflight.checks.instance_offerings import stack_zones
from tests.spec.existing_config import IN_A_VPC

ZONES = ("us-west-2a", "us-west-2b", "us-west-2c")
NAMES = [interface_service(service, "us-west-2") for service in INTERFACE_SERVICES["full"]]


def results(subject: Subject) -> list[tuple[Status, str]]:
    return [(finding.status, finding.message) for finding in endpoint_services.check(subject)]


def service(name: str, kind: str = "Interface", zones: tuple[str, ...] = ZONES) -> dict[str, Any]:
    return {"ServiceName": name, "ServiceType": [{"ServiceType": kind}], "AvailabilityZones": list(zones)}


def offered(one: Subject, answers: Callable[..., Stubber], monkeypatch: Any, services: list[dict[str, Any]]) -> Subject:
    """Make EC2 return these services, on two pages."""
    zones = stack_zones(one)
    monkeypatch.setattr(endpoint_services, "stack_zones", lambda _subject: zones)
    ec2 = answers(one, "ec2")
    ec2.add_response("describe_vpc_endpoint_services", {"ServiceDetails": services[:3], "NextToken": "more"}, {})
    ec2.add_response("describe_vpc_endpoint_services", {"ServiceDetails": services[3:]}, {"NextToken": "more"})
    return one


GATEWAY = service("com.amazonaws.us-west-2.s3", "Gateway", ())


def test_services_that_the_region_has_are_ok(subject: Callable[..., Subject]) -> None:
    assert results(subject()) == [
        (Status.OK, f"{1 + len(NAMES)} services are offered, interfaces in us-west-2a, us-west-2b, us-west-2c")
    ]
    assert results(subject({"network.endpoints": "none"})) == [(Status.OK, "1 services are offered")]


def test_a_service_that_is_missing_or_missing_in_a_zone_fails(
    subject: Callable[..., Subject], answers: Callable[..., Stubber], monkeypatch: Any
) -> None:
    left_out = "com.amazonaws.us-west-2.eks-auth"
    in_two = "com.amazonaws.us-west-2.logs"
    services = [
        GATEWAY,
        *(service(name, zones=ZONES[:2] if name == in_two else ZONES) for name in NAMES if name != left_out),
    ]
    found = list(endpoint_services.check(offered(subject(), answers, monkeypatch, services)))
    assert [(finding.status, finding.message, finding.remedy) for finding in found] == [
        (
            Status.FAIL,
            f"us-west-2 has no interface endpoint service {left_out}",
            "set network.endpoints to minimal or none, with a NAT gateway",
        ),
        (
            Status.FAIL,
            f"{in_two} does not support us-west-2c; it supports us-west-2a, us-west-2b",
            "set network.zones to zones that it supports, or set network.endpoints to minimal or none, with a NAT gateway",
        ),
    ]


def test_an_interface_of_s3_is_no_gateway(
    subject: Callable[..., Subject], answers: Callable[..., Stubber], monkeypatch: Any
) -> None:
    services = [service("com.amazonaws.us-west-2.s3"), *map(service, NAMES)]
    one = offered(subject({"network.endpoints": "none"}), answers, monkeypatch, services)
    assert results(one) == [(Status.FAIL, "us-west-2 has no gateway endpoint service com.amazonaws.us-west-2.s3")]


def test_an_existing_vpc_gets_no_endpoints(subject: Callable[..., Subject]) -> None:
    assert results(subject(IN_A_VPC)) == [(Status.OK, "the stack creates none: the VPC exists")]
