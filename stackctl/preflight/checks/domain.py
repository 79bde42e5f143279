"""Can the gateway have its name: a hosted zone for it, nobody else's record, and a certificate?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from spec.settings.gateway import Gateway
from stackctl.account.read_only import or_none
from stackctl.preflight.checks.check import Finding, Subject, fail, ok

_AMAZON = ("amazon.com", "amazontrust.com", "awstrust.com", "amazonaws.com")
"""Of a CAA record one of these lets ACM issue: https://docs.aws.amazon.com/acm/latest/userguide/setup-caa.html."""
Records = Sequence[Mapping[str, Any]]


def check(subject: Subject) -> Iterator[Finding]:
    """Yield what stands in the way of `gateway.domain`."""
    gateway = subject.settings.gateway
    if gateway is None or gateway.domain is None:
        yield ok("not needed: the gateway has no domain")
        return
    domain, route53 = gateway.domain, subject.readers("route53")
    found = or_none(lambda: route53.get_hosted_zone(Id=domain.hosted_zone_id), "NoSuchHostedZone")
    if found is None:
        yield fail(
            f"the account has no hosted zone {domain.hosted_zone_id}",
            "set gateway.domain.hostedZoneId to one that `aws route53 list-hosted-zones-by-name` prints",
        )
        return
    zone = found["HostedZone"]["Name"].rstrip(".")
    if not f".{domain.name}".endswith(f".{zone}"):
        yield fail(
            f"{domain.name} is not in the zone {zone} ({domain.hosted_zone_id})", "set gateway.domain to a name in it"
        )
        return
    pages = route53.get_paginator("list_resource_record_sets").paginate(HostedZoneId=domain.hosted_zone_id)
    records = [item for page in pages for item in page["ResourceRecordSets"]]
    problems = [*_taken(domain.name, records, subject.settings.region), *_certificate(gateway, zone, found, records)]
    yield from problems or [ok(f"{domain.name} can be a name in {zone}")]


def _taken(name: str, records: Records, region: str) -> Iterator[Finding]:
    for record in records:
        target = record.get("AliasTarget", {}).get("DNSName", "").rstrip(".")
        ours = target.endswith((f".elb.{region}.amazonaws.com", f".elb.{region}.amazonaws.com.cn"))
        if record["Name"].rstrip(".") == name and record["Type"] in ("A", "CNAME") and not ours:
            yield fail(
                f"{name} has a record of type {record['Type']} that leads to no load balancer of {region}",
                "delete it when nobody needs it any more, or give the gateway another name",
            )


def _certificate(gateway: Gateway, zone: str, found: Mapping[str, Any], records: Records) -> Iterator[Finding]:
    if not gateway.certifies_its_domain or gateway.domain is None:
        return
    if found["HostedZone"].get("Config", {}).get("PrivateZone"):
        yield fail(
            f"the zone {zone} is private, and ACM asks DNS from outside", "give gateway.certificateArn or tlsSecret too"
        )
        return
    name, values = _nearest_caa(gateway.domain.name, zone, records)
    issuers = [value.split(maxsplit=2)[2].strip('"') for value in values if value.split(maxsplit=2)[1] == "issue"]
    if issuers and not any(issuer.partition(";")[0].strip() in _AMAZON for issuer in issuers):
        yield fail(
            f"the CAA records of {name} let {', '.join(issuers)} make certificates, and not Amazon",
            f'add 0 issue "{_AMAZON[0]}" to them',
        )


def _nearest_caa(name: str, zone: str, records: Records) -> tuple[str, list[str]]:
    """Return the nearest name at or above this one that has CAA records, which are those that count, and what they say.

    https://www.rfc-editor.org/rfc/rfc8659#section-3
    """
    while f".{name}".endswith(f".{zone}"):
        values = [
            value["Value"]
            for record in records
            if record["Type"] == "CAA" and record["Name"].rstrip(".") == name
            for value in record["ResourceRecords"]
        ]
        if values:
            return name, values
        name = name.partition(".")[2]
    return name, []
