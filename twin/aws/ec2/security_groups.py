"""Security groups."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, ClassVar

from twin.aws.base.clients import Clients
from twin.aws.base.errors import HandlerError, Problem
from twin.aws.base.handler import Handler, Values, known
from twin.aws.base.lookup import gone_is_fine
from twin.aws.ec2 import api

# The characters and lengths that EC2 documents for group names and descriptions.
_TEXT = re.compile(r"[A-Za-z0-9 ._\-:/()#,@\[\]+=&;{}!$*]{0,255}")


class SecurityGroup(Handler):
    """A group without inline rules: rules are resources of their own."""

    token = "aws:ec2/securityGroup:SecurityGroup"
    inputs = frozenset({"name", "description", "vpcId", "tags"})
    defaults: ClassVar[Values] = {"description": "Managed by Pulumi"}
    computed = frozenset({"arn", "ownerId"})
    replace_on = frozenset({"name", "description", "vpcId"})
    name_input = "name"

    def rules(self, inputs: Values) -> Iterable[Problem]:
        if "vpcId" not in inputs:
            yield Problem("vpcId", "required: the default VPC is not for this program")
        yield from text_problems(inputs, "name")
        yield from text_problems(inputs, "description")
        if str(known(inputs, "name") or "").startswith("sg-"):
            yield Problem("name", "may not begin with sg-")

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        api.require(clients, "vpc", inputs["vpcId"], f"security group {inputs['name']}")
        id = clients("ec2").create_security_group(
            GroupName=inputs["name"],
            Description=inputs.get("description", self.defaults["description"]),
            VpcId=inputs["vpcId"],
            **api.tag_specifications("security-group", inputs),
        )["GroupId"]
        # The official provider removes the rule that allows all egress; what is allowed is declared.
        revoke_all(clients, id)
        computed = {"arn": clients.arn("ec2", f"security-group/{id}"), "ownerId": clients.account_id}
        return id, self.outputs(inputs, computed)

    def read(self, clients: Clients, id: str, state: Values) -> Values | None:
        group = api.describe(clients, "security-group", id)
        if group is None:
            return None
        observed = {"name": group["GroupName"], "description": group["Description"], "vpcId": group["VpcId"]}
        return {**state, **api.observed_tags(state, group), **observed}

    def update(self, clients: Clients, id: str, old: Values, new: Values) -> Values:
        api.retag(clients, id, old, new)
        return self.kept(new, old)

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        users = _users(clients, id)
        if users:
            raise HandlerError(f"security group {id} is in use by {', '.join(users)}")
        with gone_is_fine():
            clients("ec2").delete_security_group(GroupId=id)


class DefaultSecurityGroup(Handler):
    """Adopts a VPC's default group and removes all of its rules; deleting it leaves it as it is."""

    token = "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup"
    inputs = frozenset({"vpcId", "tags"})
    computed = frozenset({"arn", "description", "name", "ownerId"})
    replace_on = frozenset({"vpcId"})

    def rules(self, inputs: Values) -> Iterable[Problem]:
        if "vpcId" not in inputs:
            yield Problem("vpcId", "required: the default VPC is not for this program")

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        api.require(clients, "vpc", inputs["vpcId"], "default security group")
        group = self._find(clients, inputs["vpcId"])
        id = group["GroupId"]
        revoke_all(clients, id)
        api.retag(clients, id, {}, inputs)
        computed = {
            "arn": clients.arn("ec2", f"security-group/{id}"),
            "description": group["Description"],
            "name": group["GroupName"],
            "ownerId": clients.account_id,
        }
        return id, self.outputs(inputs, computed)

    def read(self, clients: Clients, id: str, state: Values) -> Values | None:
        group = api.describe(clients, "security-group", id)
        return None if group is None else {**state, **api.observed_tags(state, group), "vpcId": group["VpcId"]}

    def update(self, clients: Clients, id: str, old: Values, new: Values) -> Values:
        api.retag(clients, id, old, new)
        return self.kept(new, old)

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        """Do nothing: AWS does not let the default group go before its VPC."""

    @staticmethod
    def _find(clients: Clients, vpc_id: str) -> dict[str, Any]:
        filters = [{"Name": "vpc-id", "Values": [vpc_id]}, {"Name": "group-name", "Values": ["default"]}]
        group: dict[str, Any] = clients("ec2").describe_security_groups(Filters=filters)["SecurityGroups"][0]
        return group


def _users(clients: Clients, id: str) -> list[str]:
    """Interfaces and endpoints with this group (moto does not give an endpoint's interfaces its groups)."""
    ec2 = clients("ec2")
    found = ec2.describe_network_interfaces(Filters=[{"Name": "group-id", "Values": [id]}])["NetworkInterfaces"]
    endpoints = [
        endpoint["VpcEndpointId"]
        for endpoint in ec2.describe_vpc_endpoints()["VpcEndpoints"]
        if endpoint["State"] != "deleted" and id in [group["GroupId"] for group in endpoint.get("Groups", [])]
    ]
    return sorted({interface["NetworkInterfaceId"] for interface in found} | set(endpoints))


def revoke_all(clients: Clients, group_id: str) -> None:
    """Remove every rule of the group, both directions."""
    ec2 = clients("ec2")
    found = ec2.describe_security_group_rules(Filters=[{"Name": "group-id", "Values": [group_id]}])
    for rule in found["SecurityGroupRules"]:
        revoke = ec2.revoke_security_group_egress if rule["IsEgress"] else ec2.revoke_security_group_ingress
        revoke(GroupId=group_id, SecurityGroupRuleIds=[rule["SecurityGroupRuleId"]])


def text_problems(inputs: Values, key: str) -> Iterable[Problem]:
    """Yield the problems of a group name or of a description of a group or rule."""
    value = known(inputs, key)
    if value is not None and not _TEXT.fullmatch(value):
        yield Problem(key, f"{value!r}: at most 255 of letters, digits, spaces and ._-:/()#,@[]+=&;{{}}!$*")
