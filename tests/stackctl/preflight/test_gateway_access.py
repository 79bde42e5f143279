"""Findings about a gateway's domain and its clients' keys, on moto."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import boto3
import pytest

from stackctl.account import public_dns
from stackctl.preflight.checks import client_keys, domain
from stackctl.preflight.checks.check import Status, Subject
from tests import http_server

GATEWAY = {"replicas": 2, "cpu": "1", "memoryMiB": 512}
CERTIFICATE = "arn:aws:acm:us-west-2:123456789012:certificate/01234567-89ab-cdef-0123-456789abcdef"
NAME = "inference.example.com"
FREE = f"{NAME} can be a name in example.com"
SEEN = f"{FREE}, which is public: its private addresses are told to whoever asks DNS"
OUTSIDE = "is private, and ACM asks DNS from outside"
BALANCER = "k8s-a-b.elb.us-west-2.amazonaws.com"


NO_SUCH_NAME, REFUSED = 3, 5


@dataclass
class PublicDns:
    """A DNS-over-HTTPS resolver with a zone's delegation; by default from moto."""

    servers: Callable[[str], list[str]]
    status: int = 0
    asked: list[tuple[str, str]] = field(default_factory=list)

    def answer(self, query: str) -> dict[str, Any]:
        ((name,), (kind,)) = (parse_qs(query)[key] for key in ("name", "type"))
        self.asked.append((name, kind))
        found = [] if self.status else [{"name": f"{name}.", "type": 2, "data": f"{one}."} for one in self.servers(name)]
        return {"Status": self.status, **({"Answer": found} if found else {})}


def of_the_newest_zone(name: str) -> list[str]:
    route53 = boto3.client("route53")
    public = [one for one in route53.list_hosted_zones()["HostedZones"] if not one["Config"]["PrivateZone"]]
    assert {one["Name"] for one in public} == {f"{name}."}
    return list(route53.get_hosted_zone(Id=public[-1]["Id"])["DelegationSet"]["NameServers"])


@pytest.fixture(autouse=True)
def dns(monkeypatch: pytest.MonkeyPatch, account: str) -> Iterator[PublicDns]:
    there = PublicDns(of_the_newest_zone)

    class Answers(http_server.Handler):
        def do_GET(self) -> None:
            self.answer(200, json.dumps(there.answer(urlsplit(self.path).query)).encode())

    with http_server.listening(Answers) as server:
        monkeypatch.setattr(public_dns, "RESOLVER", f"{server.url}/resolve")
        yield there


def zone(*records: tuple[str, str, str], private: bool = False) -> str:
    """Create a hosted zone for example.com with these records (name, type, value; ALIAS for an alias); return its id."""
    route53 = boto3.client("route53")
    more: dict[str, Any] = {}
    if private:
        vpc = boto3.client("ec2", region_name="us-west-2").describe_vpcs()["Vpcs"][0]["VpcId"]
        more = {"VPC": {"VPCRegion": "us-west-2", "VPCId": vpc}, "HostedZoneConfig": {"PrivateZone": True, "Comment": ""}}
    made = route53.create_hosted_zone(Name="example.com", CallerReference=str(uuid.uuid4()), **more)["HostedZone"]["Id"]
    for name, kind, value in records:
        record: dict[str, Any] = {"Name": name, "Type": kind, "TTL": 60, "ResourceRecords": [{"Value": value}]}
        if kind == "ALIAS":
            target = {"DNSName": value, "HostedZoneId": "Z18D5FSROUN65G", "EvaluateTargetHealth": False}
            record = {"Name": name, "Type": "A", "AliasTarget": target}
        batch = {"Changes": [{"Action": "CREATE", "ResourceRecordSet": record}]}
        route53.change_resource_record_sets(HostedZoneId=made, ChangeBatch=batch)
    return str(made).rpartition("/")[2]


def asked(subject: Callable[..., Subject], id: str, public: str | None = None, **keys: Any) -> list[tuple[Status, str]]:
    zones = {"hostedZoneId": id, **({} if public is None else {"publicZoneId": public})}
    gateway = {**GATEWAY, "domain": {"name": NAME, **zones}, **keys}
    return [(found.status, found.message) for found in domain.check(subject({"gateway": gateway}))]


@pytest.mark.parametrize(
    "records",
    [
        (),
        ((NAME, "ALIAS", BALANCER),),
        (("example.com", "CAA", '0 issue "amazon.com"'),),
        (("example.com", "CAA", '0 iodef "mailto:a@example.com"'),),
        # The nearest counts.
        ((NAME, "CAA", '0 issue "amazontrust.com"'), ("example.com", "CAA", '0 issue "letsencrypt.org"')),
        ((NAME, "TXT", '"x"'), ("other.example.com", "A", "203.0.113.7")),
    ],
    ids=str,
)
def test_a_name_that_is_free_can_be_had(subject: Callable[..., Subject], records: tuple[Any, ...]) -> None:
    there = zone(*records)
    assert asked(subject, there) == [(Status.OK, SEEN)]
    assert asked(subject, there, exposure="public", allowedCidrs=["203.0.113.0/24"]) == [(Status.OK, FREE)]


@pytest.mark.parametrize(
    ("records", "said"),
    [
        (((NAME, "A", "203.0.113.7"),), f"{NAME} has a record of type A that leads to no load balancer of us-west-2"),
        (
            ((NAME, "ALIAS", "k8s-a-b.elb.eu-central-1.amazonaws.com"),),
            f"{NAME} has a record of type A that leads to no load balancer of us-west-2",
        ),
        (
            (("example.com", "CAA", '0 issue "letsencrypt.org"'),),
            "the CAA records of example.com let letsencrypt.org make certificates, and not Amazon",
        ),
    ],
)
def test_what_stands_in_the_way_is_told(subject: Callable[..., Subject], records: tuple[Any, ...], said: str) -> None:
    assert asked(subject, zone(*records)) == [(Status.FAIL, said)]


def test_a_zone_that_is_not_there_or_for_another_name_fails(subject: Callable[..., Subject]) -> None:
    assert asked(subject, "Z0123456789") == [(Status.FAIL, "the account has no hosted zone Z0123456789")]
    there = zone()
    other = {**GATEWAY, "domain": {"name": "inference.example.org", "hostedZoneId": there}}
    (found,) = domain.check(subject({"gateway": other}))
    assert found.message == f"inference.example.org is not in the zone example.com ({there})"


def test_a_private_zone_needs_a_public_one_or_a_certificate_of_ones_own(subject: Callable[..., Subject]) -> None:
    there = zone(private=True)
    assert asked(subject, there) == [(Status.FAIL, f"the zone example.com of hostedZoneId {OUTSIDE}")]
    assert asked(subject, there, certificateArn=CERTIFICATE) == [(Status.OK, FREE)]
    assert asked(subject, there, zone()) == [(Status.OK, FREE)]


def test_the_public_zone_is_looked_at_too(subject: Callable[..., Subject]) -> None:
    there = zone(private=True)
    assert asked(subject, there, "Z0123456789") == [(Status.FAIL, "the account has no hosted zone Z0123456789")]
    assert asked(subject, there, zone(private=True)) == [(Status.FAIL, f"the zone example.com of publicZoneId {OUTSIDE}")]
    (found,) = asked(subject, there, zone(("example.com", "CAA", '0 issue "letsencrypt.org"')))
    assert found == (Status.FAIL, "the CAA records of example.com let letsencrypt.org make certificates, and not Amazon")
    (found,) = asked(subject, zone(), zone())
    assert found[1] == "the zone example.com of hostedZoneId is public too, and DNS asks one public zone for a name"


def found_of(subject: Callable[..., Subject], id: str, **keys: Any) -> list[domain.Finding]:
    gateway = {**GATEWAY, "domain": {"name": NAME, "hostedZoneId": id}, **keys}
    return list(domain.check(subject({"gateway": gateway})))[1:]


@pytest.mark.parametrize(
    ("servers", "said"),
    [
        ([], "is delegated to nobody"),
        (["ns1.registrar.example", "NS0.registrar.example"], "is delegated to ns0.registrar.example, ns1.registrar.example"),
    ],
)
def test_a_zone_that_dns_does_not_ask_is_a_warning_with_the_name_servers_to_enter(
    subject: Callable[..., Subject], dns: PublicDns, servers: list[str], said: str
) -> None:
    there = zone()
    own = ", ".join(sorted(of_the_newest_zone("example.com")))
    dns.servers = lambda name: servers
    (found,) = found_of(subject, there)
    assert found == domain.warn(
        f"example.com {said} in public DNS, and not to the hosted zone {there}; nobody outside finds a name in it, and a "
        "certificate of ACM for one is never issued",
        f"enter these name servers for example.com at its registrar, or as its NS record in the zone above it: {own}",
    )
    assert dns.asked == [("example.com", "NS")]


def test_a_domain_that_nobody_has_is_delegated_to_nobody(subject: Callable[..., Subject], dns: PublicDns) -> None:
    dns.status = NO_SUCH_NAME
    (found,) = found_of(subject, zone())
    assert (found.status, found.message.partition(" in ")[0]) == (Status.WARN, "example.com is delegated to nobody")


def test_public_dns_that_does_not_tell_is_no_mistake(subject: Callable[..., Subject], dns: PublicDns) -> None:
    dns.status = REFUSED
    (found,) = found_of(subject, zone())
    assert (found.status, found.message) == (
        Status.UNKNOWN,
        "public DNS did not tell who answers for example.com (its answer about example.com has the code 5)",
    )
    assert found.remedy.startswith("`dig NS example.com` should name ns-")


def test_a_private_zone_is_delegated_to_nobody_and_need_not_be(subject: Callable[..., Subject], dns: PublicDns) -> None:
    assert found_of(subject, zone(private=True), certificateArn=CERTIFICATE) == []
    assert dns.asked == []


def test_each_client_needs_keys_before_the_gateway_gets_any(subject: Callable[..., Subject]) -> None:
    one = subject({"gateway": {**GATEWAY, "certificateArn": CERTIFICATE, "clients": {"team-a": {}, "team-b": {}}}})
    secrets = boto3.client("secretsmanager", region_name="us-west-2")
    secrets.create_secret(Name="triton-staging/clients/team-a", SecretString="{}")
    (found,) = client_keys.check(one)
    assert (found.status, found.message, found.remedy) == (
        Status.FAIL,
        "the client team-b has no keys (triton-staging/clients/team-b)",
        "python3 -m stackctl keys create staging team-b",
    )
    secrets.create_secret(Name="triton-staging/clients/team-b", SecretString="{}")
    assert [(found.status, found.message) for found in client_keys.check(one)] == [(Status.OK, "2 clients have keys")]
    secrets.delete_secret(SecretId="triton-staging/clients/team-b")
    (found,) = client_keys.check(one)
    assert found.message == "the keys of the client team-b are being deleted"


@pytest.mark.parametrize("changes", [{}, {"gateway": {**GATEWAY, "certificateArn": CERTIFICATE}}])
def test_others_need_neither(subject: Callable[..., Subject], changes: dict[str, Any]) -> None:
    one = subject(changes)
    assert [found.status for check in (domain, client_keys) for found in check.check(one)] == [Status.OK, Status.OK]
