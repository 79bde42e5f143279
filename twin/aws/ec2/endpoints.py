"""VPC endpoints, gateway and interface."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import ClassVar

from twin.aws.base import documents
from twin.aws.base.clients import Clients
from twin.aws.base.errors import HandlerError, Problem
from twin.aws.base.handler import Values, known
from twin.aws.ec2 import api
from twin.aws.ec2.api import Ec2Handler

_LISTS = {"routeTableIds": "RouteTable", "subnetIds": "Subnet", "securityGroupIds": "SecurityGroup"}
_BELONGS_TO = {"routeTableIds": "Gateway", "subnetIds": "Interface", "securityGroupIds": "Interface"}
_RETIRED = {"ec2messages": "30 September 2026"}
"""Services that AWS ended (docs/facts/eks.md#endpoint-services); moto still lists them."""
_KINDS = {"routeTableIds": "route-table", "subnetIds": "subnet", "securityGroupIds": "security-group"}


class VpcEndpoint(Ec2Handler):
    kind = "vpc-endpoint"
    token = "aws:ec2/vpcEndpoint:VpcEndpoint"
    inputs = frozenset({"vpcId", "serviceName", "vpcEndpointType", "policy", "privateDnsEnabled", *_LISTS, "tags"})
    defaults: ClassVar[Values] = {"vpcEndpointType": "Gateway"}
    computed = frozenset({"arn", "networkInterfaceIds", "ownerId", "policy", "prefixListId", "state"})
    replace_on = frozenset({"vpcId", "serviceName", "vpcEndpointType"})
    unordered = frozenset(_LISTS)

    def rules(self, inputs: Values) -> Iterable[Problem]:
        kind = inputs.get("vpcEndpointType", "Gateway")
        if kind not in ("Gateway", "Interface"):
            yield Problem("vpcEndpointType", f"the twin has Gateway and Interface endpoints, not {kind!r}")
            return
        if "serviceName" not in inputs:
            yield Problem("serviceName", "required")
        service = (known(inputs, "serviceName") or "").rpartition(".")[2]
        if service in _RETIRED:
            yield Problem("serviceName", f"AWS retired {service} on {_RETIRED[service]}; remove this endpoint")
        for key, owner in _BELONGS_TO.items():
            if inputs.get(key) and owner != kind:
                yield Problem(key, f"only for {owner} endpoints")
        if kind == "Interface" and not inputs.get("subnetIds"):
            yield Problem("subnetIds", "an Interface endpoint without subnets has no address")
        if kind == "Gateway" and inputs.get("privateDnsEnabled") is True:
            yield Problem("privateDnsEnabled", "only for Interface endpoints")
        yield from documents.json_problems(inputs, "policy")

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        self._check_references(clients, inputs)
        parameters = {
            name: inputs[key]
            for key, name in (
                ("vpcId", "VpcId"),
                ("serviceName", "ServiceName"),
                ("vpcEndpointType", "VpcEndpointType"),
                ("policy", "PolicyDocument"),
                ("privateDnsEnabled", "PrivateDnsEnabled"),
            )
            if key in inputs
        }
        members = {f"{name}Ids": inputs[key] for key, name in _LISTS.items() if inputs.get(key)}
        endpoint = clients("ec2").create_vpc_endpoint(
            **parameters, **members, **api.tag_specifications("vpc-endpoint", inputs)
        )["VpcEndpoint"]
        return endpoint["VpcEndpointId"], self.outputs(inputs, self._computed(clients, endpoint, inputs))

    def observed(self, clients: Clients, found: Values, state: Values) -> Values:
        shown = {
            "routeTableIds": found.get("RouteTableIds", []),
            "subnetIds": found.get("SubnetIds", []),
            "securityGroupIds": [group["GroupId"] for group in found.get("Groups", [])],
        }
        seen = {key: _in_order(state[key], value) for key, value in shown.items() if key in state}
        return {**seen, **self._computed(clients, found, state)}

    def update(self, clients: Clients, id: str, old: Values, new: Values) -> Values:
        self._check_references(clients, new, id)
        changes: Values = {}
        for key, name in _LISTS.items():
            before, after = set(old.get(key, [])), set(new.get(key, []))
            if after - before:
                changes[f"Add{name}Ids"] = sorted(after - before)
            if before - after:
                changes[f"Remove{name}Ids"] = sorted(before - after)
        if new.get("policy", old.get("policy")) != old.get("policy"):
            changes["PolicyDocument"] = new["policy"]
        if changes:
            clients("ec2").modify_vpc_endpoint(VpcEndpointId=id, **changes)
        return super().update(clients, id, old, new)

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        if api.describe(clients, "vpc-endpoint", id) is not None:
            clients("ec2").delete_vpc_endpoints(VpcEndpointIds=[id])

    @staticmethod
    def _computed(clients: Clients, endpoint: Values, inputs: Values) -> Values:
        policy = endpoint.get("PolicyDocument", "")
        if "policy" in inputs and _same_json(policy, inputs["policy"]):
            policy = inputs["policy"]
        return {
            "arn": clients.arn("ec2", f"vpc-endpoint/{endpoint['VpcEndpointId']}"),
            "networkInterfaceIds": endpoint.get("NetworkInterfaceIds", []),
            "ownerId": clients.account_id,
            "policy": policy,
            "prefixListId": _prefix_list(clients, endpoint),
            "state": endpoint["State"],
        }

    @staticmethod
    def _check_references(clients: Clients, inputs: Values, own_id: str | None = None) -> None:
        service = inputs["serviceName"]
        where = f"VPC endpoint for {service}"
        api.require(clients, "vpc", inputs["vpcId"], where)
        if service not in clients.endpoint_services:
            raise HandlerError(f"{where}: no such endpoint service in {clients.region}")
        zones: dict[str, str] = {}
        for key, kind in _KINDS.items():
            members = inputs.get(key, [])
            for member, found in zip(members, api.require_all(clients, kind, members, where), strict=True):
                if found["VpcId"] != inputs["vpcId"]:
                    raise HandlerError(f"{where}: {kind} {member} is in {found['VpcId']}, not in {inputs['vpcId']}")
                if kind == "subnet":
                    other = zones.setdefault(found["AvailabilityZone"], member)
                    if other != member:
                        zone = found["AvailabilityZone"]
                        raise HandlerError(f"{where}: subnets {other} and {member} are both in {zone}; one per zone")
        if inputs.get("privateDnsEnabled"):
            _check_private_dns(clients, inputs, where, own_id)


def _check_private_dns(clients: Clients, inputs: Values, where: str, own_id: str | None) -> None:
    ec2 = clients("ec2")
    for attribute in ("enableDnsSupport", "enableDnsHostnames"):
        answer = ec2.describe_vpc_attribute(VpcId=inputs["vpcId"], Attribute=attribute)
        if not answer[attribute[0].upper() + attribute[1:]]["Value"]:
            raise HandlerError(f"{where}: private DNS needs {attribute} on {inputs['vpcId']}")
    filters = [
        {"Name": "vpc-id", "Values": [inputs["vpcId"]]},
        {"Name": "service-name", "Values": [inputs["serviceName"]]},
    ]
    for other in ec2.describe_vpc_endpoints(Filters=filters)["VpcEndpoints"]:
        alive = other["State"] not in ("deleted", "deleting") and other["VpcEndpointId"] != own_id
        if alive and other["VpcEndpointType"] == "Interface" and other.get("PrivateDnsEnabled"):
            raise HandlerError(f"{where}: {other['VpcEndpointId']} already has the private DNS name in this VPC")


def _prefix_list(clients: Clients, endpoint: Values) -> str:
    if endpoint["VpcEndpointType"] != "Gateway":
        return ""
    lists = clients("ec2").describe_prefix_lists(
        Filters=[{"Name": "prefix-list-name", "Values": [endpoint["ServiceName"]]}]
    )["PrefixLists"]
    return str(lists[0]["PrefixListId"]) if lists else ""


def _in_order(declared: list[str], seen: list[str]) -> list[str]:
    """Set-like lists keep the declared order when nothing changed, so that a refresh shows no drift."""
    return declared if set(declared) == set(seen) and len(declared) == len(seen) else sorted(seen)


def _same_json(left: str, right: str) -> bool:
    try:
        return bool(json.loads(left) == json.loads(right))
    except ValueError:
        return False
