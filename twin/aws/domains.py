"""Certificates of ACM that DNS validates, and records of Route 53.

moto issues a certificate whatever DNS says; here it is issued when the record that proves the domain is in a public zone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from twin.aws.base import tags
from twin.aws.base.clients import Clients
from twin.aws.base.errors import HandlerError, Problem
from twin.aws.base.handler import Handler, Invoke, Values, known
from twin.aws.base.lookup import gone_is_fine, or_none
from twin.aws.invokes import only

_ZONES_OF_NETWORK_LOAD_BALANCERS = {
    "eu-west-1": "Z2IFOLAFXWLO4F",
    "us-east-1": "Z26RNL4JYFTOTI",
    "us-east-2": "ZLMOA37VPKANP",
    "us-west-2": "Z18D5FSROUN65G",
}
"""https://docs.aws.amazon.com/general/latest/gr/elb.html; of other regions the twin makes one up."""


class Certificate(Handler):
    token = "aws:acm/certificate:Certificate"
    inputs = frozenset({"domainName", "tags", "validationMethod"})
    computed = frozenset({"arn", "domainValidationOptions", "status"})
    replace_on = frozenset({"domainName", "validationMethod"})

    def rules(self, inputs: Values) -> Iterable[Problem]:
        if known(inputs, "validationMethod") != "DNS":
            yield Problem("validationMethod", "DNS is the only one that the twin has")

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        acm = clients("acm")
        given = {"Tags": tags.to_list(inputs["tags"])} if inputs.get("tags") else {}
        arn = acm.request_certificate(DomainName=inputs["domainName"], ValidationMethod="DNS", **given)["CertificateArn"]
        return arn, self.outputs(inputs, self._seen(acm.describe_certificate(CertificateArn=arn)["Certificate"]))

    def read(self, clients: Clients, id: str, state: Values) -> Values | None:
        found = or_none(clients("acm").describe_certificate, CertificateArn=id)
        if found is None:
            return None
        seen = clients("acm").list_tags_for_certificate(CertificateArn=id)["Tags"]
        # Its status is not what anybody declares.
        return {**state, **tags.observed(state, tags.from_list(seen))}

    def update(self, clients: Clients, id: str, old: Values, new: Values) -> Values:
        acm = clients("acm")
        gone = [{"Key": key} for key in tags.removed(old.get("tags"), new.get("tags"))]
        if gone:
            acm.remove_tags_from_certificate(CertificateArn=id, Tags=gone)
        if new.get("tags"):
            acm.add_tags_to_certificate(CertificateArn=id, Tags=tags.to_list(new["tags"]))
        return self.kept(new, old)

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        with gone_is_fine():
            clients("acm").delete_certificate(CertificateArn=id)

    @staticmethod
    def _seen(found: dict[str, Any]) -> Values:
        return {
            "arn": found["CertificateArn"],
            "status": found["Status"],
            "domainValidationOptions": [
                {
                    "domainName": option["DomainName"],
                    "resourceRecordName": option["ResourceRecord"]["Name"],
                    "resourceRecordType": option["ResourceRecord"]["Type"],
                    "resourceRecordValue": option["ResourceRecord"]["Value"],
                }
                for option in found["DomainValidationOptions"]
            ],
        }


class CertificateValidation(Handler):
    """Waits until the certificate has been issued; nothing in AWS."""

    token = "aws:acm/certificateValidation:CertificateValidation"
    inputs = frozenset({"certificateArn", "validationRecordFqdns"})
    replace_on = frozenset({"certificateArn", "validationRecordFqdns"})

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        arn = inputs["certificateArn"]
        found = or_none(clients("acm").describe_certificate, CertificateArn=arn)
        if found is None:
            raise HandlerError(f"there is no certificate {arn}")
        for option in found["Certificate"]["DomainValidationOptions"]:
            proof = option["ResourceRecord"]
            seen = (item for zone in _public_zones(clients) for item in _records(clients, zone, proof["Name"]))
            values = (item["ResourceRecords"] for item in seen)
            if [{"Value": proof["Value"]}] not in values:
                raise HandlerError(
                    f"certificate {arn} stays PENDING_VALIDATION: no public hosted zone has the record {proof['Name']}, "
                    f"{proof['Type']} {proof['Value']}"
                )
        return arn, self.outputs(inputs, {})

    def read(self, clients: Clients, id: str, state: Values) -> Values | None:
        return state if or_none(clients("acm").describe_certificate, CertificateArn=id) is not None else None

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        pass


class Record(Handler):
    token = "aws:route53/record:Record"
    inputs = frozenset({"aliases", "name", "records", "ttl", "type", "zoneId"})
    computed = frozenset({"fqdn"})
    replace_on = frozenset({"name", "type", "zoneId"})

    def rules(self, inputs: Values) -> Iterable[Problem]:
        if ("aliases" in inputs) == ("records" in inputs):
            yield Problem("records", "give either records or aliases")
        if "records" in inputs and "ttl" not in inputs:
            yield Problem("ttl", "required with records")

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        zone, name = inputs["zoneId"], inputs["name"].rstrip(".")
        found = or_none(clients("route53").get_hosted_zone, Id=zone)
        if found is None or not f".{name}.".endswith(f".{found['HostedZone']['Name']}"):
            raise HandlerError(f"record {name}: no hosted zone {zone}, or it is not for that name")
        self._change(clients, "CREATE", inputs)
        return f"{zone}_{name}_{inputs['type']}", self.outputs(inputs, {"fqdn": name})

    def read(self, clients: Clients, id: str, state: Values) -> Values | None:
        if or_none(clients("route53").get_hosted_zone, Id=state["zoneId"]) is None:
            return None
        for item in _records(clients, state["zoneId"], state["name"]):
            if item["Type"] == state["type"]:
                if "records" not in state:
                    return state
                return {**state, "ttl": item["TTL"], "records": [one["Value"] for one in item["ResourceRecords"]]}
        return None

    def update(self, clients: Clients, id: str, old: Values, new: Values) -> Values:
        self._change(clients, "UPSERT", new)
        return self.kept(new, old)

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        if self.read(clients, id, state) is not None:
            self._change(clients, "DELETE", state)

    @staticmethod
    def _change(clients: Clients, action: str, inputs: Values) -> None:
        item: dict[str, Any] = {"Name": inputs["name"], "Type": inputs["type"]}
        if "records" in inputs:
            item |= {"TTL": inputs["ttl"], "ResourceRecords": [{"Value": value} for value in inputs["records"]]}
        for alias in inputs.get("aliases", ()):
            item["AliasTarget"] = {
                "DNSName": alias["name"],
                "HostedZoneId": alias["zoneId"],
                "EvaluateTargetHealth": alias["evaluateTargetHealth"],
            }
        batch = {"Changes": [{"Action": action, "ResourceRecordSet": item}]}
        clients("route53").change_resource_record_sets(HostedZoneId=inputs["zoneId"], ChangeBatch=batch)


def get_hosted_zone_id(clients: Clients, arguments: Values) -> Values:
    """Answer ``aws.lb.get_hosted_zone_id``, for network load balancers."""
    only("aws:lb/getHostedZoneId:getHostedZoneId", arguments, {"loadBalancerType"})
    if arguments.get("loadBalancerType") != "network":
        raise HandlerError("getHostedZoneId: the twin knows the zones of network load balancers")
    zone = _ZONES_OF_NETWORK_LOAD_BALANCERS.get(clients.region, f"Z{clients.region.replace('-', '').upper()}")
    return {**arguments, "id": zone, "region": clients.region}


INVOKES: dict[str, Invoke] = {"aws:lb/getHostedZoneId:getHostedZoneId": get_hosted_zone_id}


def _public_zones(clients: Clients) -> Iterator[str]:
    for page in clients("route53").get_paginator("list_hosted_zones").paginate():
        yield from (zone["Id"].rpartition("/")[2] for zone in page["HostedZones"] if not zone["Config"]["PrivateZone"])


def _records(clients: Clients, zone: str, name: str) -> list[dict[str, Any]]:
    pages = clients("route53").get_paginator("list_resource_record_sets").paginate(HostedZoneId=zone)
    wanted = f"{name.rstrip('.')}."
    return [item for page in pages for item in page["ResourceRecordSets"] if f"{item['Name'].rstrip('.')}." == wanted]
