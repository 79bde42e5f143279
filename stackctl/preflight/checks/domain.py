"""Check the gateway's name: a hosted zone that DNS uses, no other owner's record, and a certificate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spec.settings.gateway import Gateway
from stackctl.account.public_dns import PublicDnsSilent, name_servers
from stackctl.account.read_only import or_none
from stackctl.preflight.checks.check import Finding, Subject, fail, ok, unknown, warn

_AMAZON = ("amazon.com", "amazontrust.com", "awstrust.com", "amazonaws.com")
"""A CAA record with one of these lets ACM issue: https://docs.aws.amazon.com/acm/latest/userguide/setup-caa.html."""
Records = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class _Zone:
    """A hosted zone from `key` of gateway.domain."""

    key: str
    id: str
    name: str
    private: bool
    records: Records
    servers: frozenset[str]
    """Route 53's name servers of the zone; empty for a private zone."""


def check(subject: Subject) -> Iterator[Finding]:
    """Yield the problems of `gateway.domain`."""
    gateway = subject.settings.gateway
    if gateway is None or gateway.domain is None:
        yield ok("not needed: the gateway has no domain")
        return
    domain, route53 = gateway.domain, subject.readers("route53")
    zones: list[_Zone] = []
    wrong: list[Finding] = []
    for key, id in (("hostedZoneId", domain.hosted_zone_id), ("publicZoneId", domain.public_zone_id)):
        found = _zone(route53, key, id, domain.name) if id is not None else None
        if isinstance(found, _Zone):
            zones.append(found)
        elif found is not None:
            wrong.append(found)
    if wrong:
        yield from wrong
        return
    own, proof = zones[0], zones[-1]
    problems = [*_taken(domain.name, own.records, subject.settings.region), *_certificate(gateway, own, proof)]
    seen = ", which is public: its private addresses are told to whoever asks DNS"
    told = seen if gateway.exposure == "internal" and not own.private else ""
    yield from problems or [ok(f"{domain.name} can be a name in {own.name}{told}")]
    for zone in zones:
        yield from _delegated(zone)


def _zone(route53: Any, key: str, id: str, name: str) -> _Zone | Finding:
    """Return the zone, or a finding with its problem."""
    found = or_none(lambda: route53.get_hosted_zone(Id=id), "NoSuchHostedZone")
    if found is None:
        return fail(
            f"the account has no hosted zone {id}",
            f"set gateway.domain.{key} to one that `aws route53 list-hosted-zones-by-name` prints",
        )
    zone = found["HostedZone"]["Name"].rstrip(".")
    if not f".{name}".endswith(f".{zone}"):
        return fail(f"{name} is not in the zone {zone} ({id})", "set gateway.domain to a name in it")
    pages = route53.get_paginator("list_resource_record_sets").paginate(HostedZoneId=id)
    records = [item for page in pages for item in page["ResourceRecordSets"]]
    private = bool(found["HostedZone"].get("Config", {}).get("PrivateZone"))
    servers = found.get("DelegationSet", {}).get("NameServers", [])
    return _Zone(key, id, zone, private, records, frozenset(server.rstrip(".").lower() for server in servers))


def _delegated(zone: _Zone) -> Iterator[Finding]:
    """Yield why public DNS does not reach a public zone: ACM would see no proof, and clients could not resolve the name."""
    if zone.private or not zone.servers:
        return
    own = ", ".join(sorted(zone.servers))
    try:
        asked = name_servers(zone.name)
    except PublicDnsSilent as error:
        yield unknown(
            f"public DNS did not tell who answers for {zone.name} ({error})", f"`dig NS {zone.name}` should name {own}"
        )
        return
    if asked != zone.servers:
        others = f"is delegated to {', '.join(sorted(asked))}" if asked else "is delegated to nobody"
        yield warn(
            f"{zone.name} {others} in public DNS, and not to the hosted zone {zone.id}; nobody outside finds a name in it, "
            "and a certificate of ACM for one is never issued",
            f"enter these name servers for {zone.name} at its registrar, or as its NS record in the zone above it: {own}",
        )


def _taken(name: str, records: Records, region: str) -> Iterator[Finding]:
    for record in records:
        target = record.get("AliasTarget", {}).get("DNSName", "").rstrip(".")
        ours = target.endswith((f".elb.{region}.amazonaws.com", f".elb.{region}.amazonaws.com.cn"))
        if record["Name"].rstrip(".") == name and record["Type"] in ("A", "CNAME") and not ours:
            yield fail(
                f"{name} has a record of type {record['Type']} that leads to no load balancer of {region}",
                "delete it when nobody needs it any more, or give the gateway another name",
            )


def _certificate(gateway: Gateway, own: _Zone, proof: _Zone) -> Iterator[Finding]:
    if not gateway.certifies_its_domain or gateway.domain is None:
        return
    if proof.private:
        yield fail(
            f"the zone {proof.name} of {proof.key} is private, and ACM asks DNS from outside",
            "set gateway.domain.publicZoneId to the public zone for the name, or give gateway.certificateArn or tlsSecret",
        )
        return
    if proof != own and not own.private:
        yield fail(
            f"the zone {own.name} of hostedZoneId is public too, and DNS asks one public zone for a name",
            "remove gateway.domain.publicZoneId, or set hostedZoneId to a private zone",
        )
        return
    name, values = _nearest_caa(gateway.domain.name, proof.name, proof.records)
    issuers = [value.split(maxsplit=2)[2].strip('"') for value in values if value.split(maxsplit=2)[1] == "issue"]
    if issuers and not any(issuer.partition(";")[0].strip() in _AMAZON for issuer in issuers):
        yield fail(
            f"the CAA records of {name} let {', '.join(issuers)} make certificates, and not Amazon",
            f'add 0 issue "{_AMAZON[0]}" to them',
        )


def _nearest_caa(name: str, zone: str, records: Records) -> tuple[str, list[str]]:
    """Return the nearest name at or above `name` that has CAA records, and their values; only these records count.

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
