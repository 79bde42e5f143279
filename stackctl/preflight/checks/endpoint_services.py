"""Check that AWS offers each service of the stack's VPC endpoints in each zone of the endpoint."""

from __future__ import annotations

from collections.abc import Iterator

from spec.endpoints import INTERFACE_SERVICES, gateway_service, interface_service
from spec.settings import SettingsError
from spec.stack_names import stack_file
from spec.zones import control_plane_zones
from stackctl.preflight.checks.check import Finding, Subject, fail, ok, unknown
from stackctl.preflight.checks.instance_offerings import stack_zones


def check(subject: Subject) -> Iterator[Finding]:
    """Yield a finding for each service that is missing in the region or in a zone."""
    network, region = subject.settings.network, subject.settings.region
    if network.existing is not None:
        yield ok("the stack creates none: the VPC exists")
        return
    interfaces = [interface_service(service, region) for service in INTERFACE_SERVICES[network.endpoints]]
    try:
        zones, offering = stack_zones(subject)
        zones = control_plane_zones(zones, offering, stack_file(subject.settings.stack)) if interfaces else ()
    except SettingsError:
        yield unknown("the stack's zones are not known (check `instance offerings`)")
        return
    offered = _offered(subject)
    wrong = False
    for name, kind, needed in (
        (gateway_service("s3", region), "Gateway", ()),
        *((name, "Interface", zones) for name in interfaces),
    ):
        known = offered.get((name, kind))
        if known is None:
            wrong = True
            yield fail(f"{region} has no {kind.lower()} endpoint service {name}", _remedy(network.endpoints))
        elif missing := [zone for zone in needed if zone not in known]:
            wrong = True
            yield fail(
                f"{name} does not support {', '.join(missing)}; it supports {', '.join(sorted(known))}",
                f"set network.zones to zones that it supports, or {_remedy(network.endpoints)}",
            )
    if not wrong:
        where = f", interfaces in {', '.join(zones)}" if interfaces else ""
        yield ok(f"{1 + len(interfaces)} services are offered{where}")


def _remedy(profile: str) -> str:
    if profile == "none":
        return "choose another region; each stack has the gateway endpoint of S3"
    return f"set network.endpoints to {'minimal or none' if profile == 'full' else 'none'}, with a NAT gateway"


def _offered(subject: Subject) -> dict[tuple[str, str], frozenset[str]]:
    """Return the zones of each service of the region, by name and kind.

    It reads all services, because for one unknown name in a list EC2 answers only `InvalidServiceName`.
    """
    pages = subject.readers("ec2").get_paginator("describe_vpc_endpoint_services").paginate()
    return {
        (service["ServiceName"], kind["ServiceType"]): frozenset(service["AvailabilityZones"])
        for page in pages
        for service in page["ServiceDetails"]
        for kind in service["ServiceType"]
    }
