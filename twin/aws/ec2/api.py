"""Base of EC2 types that are described and tagged by one id, and their shared calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from twin.aws.base import tags
from twin.aws.base.clients import Clients
from twin.aws.base.errors import HandlerError
from twin.aws.base.handler import Handler, Values
from twin.aws.base.lookup import gone_is_fine, or_none

# resource kind in tag specifications -> (describe operation, its id parameter, its result key)
_DESCRIBE = {
    "vpc": ("describe_vpcs", "VpcIds", "Vpcs"),
    "subnet": ("describe_subnets", "SubnetIds", "Subnets"),
    "internet-gateway": ("describe_internet_gateways", "InternetGatewayIds", "InternetGateways"),
    "route-table": ("describe_route_tables", "RouteTableIds", "RouteTables"),
    "elastic-ip": ("describe_addresses", "AllocationIds", "Addresses"),
    "natgateway": ("describe_nat_gateways", "NatGatewayIds", "NatGateways"),
    "vpc-endpoint": ("describe_vpc_endpoints", "VpcEndpointIds", "VpcEndpoints"),
    "security-group": ("describe_security_groups", "GroupIds", "SecurityGroups"),
    "security-group-rule": ("describe_security_group_rules", "SecurityGroupRuleIds", "SecurityGroupRules"),
    "launch-template": ("describe_launch_templates", "LaunchTemplateIds", "LaunchTemplates"),
}
_GONE = ("deleted", "deleting")


class Ec2Handler(Handler):
    """Base of the types that EC2 describes, tags and deletes by one id. By default only tags can change."""

    kind: ClassVar[str]
    """The resource kind in tag specifications."""

    def read(self, clients: Clients, id: str, state: Values) -> Values | None:
        found = describe(clients, self.kind, id)
        if found is None:
            return None
        return {**state, **observed_tags(state, found), **self.observed(clients, found, state)}

    def observed(self, clients: Clients, found: Values, state: Values) -> Values:
        """Return the observed values from a describe call, without tags."""
        return {}

    def update(self, clients: Clients, id: str, old: Values, new: Values) -> Values:
        retag(clients, id, old, new)
        return self.kept(new, old)

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        operation, parameter, _ = _DESCRIBE[self.kind]
        delete = getattr(clients("ec2"), operation.replace("describe", "delete").removesuffix("s"))
        with gone_is_fine():
            delete(**{parameter.removesuffix("s"): id})


def describe(clients: Clients, kind: str, id: str) -> dict[str, Any] | None:
    """Return the resource of this kind and id, or None."""
    operation, parameter, key = _DESCRIBE[kind]
    answer = or_none(getattr(clients("ec2"), operation), **{parameter: [id]})
    items: list[dict[str, Any]] = answer[key] if answer else []
    alive = [item for item in items if item.get("State") not in _GONE]
    return alive[0] if alive else None


def require(clients: Clients, kind: str, id: str, wanted_by: str) -> dict[str, Any]:
    """Return the resource. Raises HandlerError with ``wanted_by`` if it does not exist."""
    found = describe(clients, kind, id)
    if found is None:
        raise HandlerError(f"{wanted_by}: {kind} {id} does not exist in {clients.region}")
    return found


def require_all(clients: Clients, kind: str, ids: Sequence[str], wanted_by: str) -> list[dict[str, Any]]:
    """Return the resources in this order with one request. Raises HandlerError like `require`."""
    operation, parameter, key = _DESCRIBE[kind]
    answer = or_none(getattr(clients("ec2"), operation), **{parameter: list(ids)}) if ids else None
    found = {item[parameter.removesuffix("s")]: item for item in answer[key]} if answer else {}
    alive = {id: item for id, item in found.items() if item.get("State") not in _GONE}
    return [alive.get(id) or require(clients, kind, id, wanted_by) for id in ids]


def tag_specifications(kind: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the TagSpecifications parameter of a create call; it is absent without tags."""
    pairs = tags.to_list(inputs.get("tags"))
    return {"TagSpecifications": [{"ResourceType": kind, "Tags": pairs}]} if pairs else {}


def retag(clients: Clients, id: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Change the tags of ``id`` from the old to the new inputs' ``tags``."""
    before, after = old.get("tags") or {}, new.get("tags") or {}
    gone = tags.removed(before, after)
    if gone:
        clients("ec2").delete_tags(Resources=[id], Tags=[{"Key": key} for key in gone])
    if after and after != before:
        clients("ec2").create_tags(Resources=[id], Tags=tags.to_list(after))


def observed_tags(state: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``tags`` and ``tagsAll`` as a describe call shows them."""
    return tags.observed(state, tags.from_list(found.get("Tags")))


def own(clients: Clients, resource: str) -> dict[str, Any]:
    """Return ARN and owner of a resource of this account."""
    return {"arn": clients.arn("ec2", resource), "ownerId": clients.account_id}
