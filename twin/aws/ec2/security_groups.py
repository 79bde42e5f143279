"""Security groups."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, ClassVar

from twin.aws.base.clients import Clients
from twin.aws.base.errors import HandlerError, Problem
from twin.aws.base.handler import Values, known
from twin.aws.ec2 import api
from twin.aws.ec2.api import Ec2Handler

# The characters and lengths that EC2 documents for group names and descriptions.
_TEXT = re.compile(r"[A-Za-z0-9 ._\-:/()#,@\[\]+=&;{}!$*]{0,255}")


class SecurityGroup(Ec2Handler):
    """A group without inline rules: rules are resources of their own."""

    kind = "security-group"
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

    def observed(self, clients: Clients, found: Values, state: Values) -> Values:
        return {"name": found["GroupName"], "description": found["Description"], "vpcId": found["VpcId"]}

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        users = _users(clients, id)
        if users:
            raise HandlerError(f"security group {id} is in use by {', '.join(users)}")
        super().delete(clients, id, state)


class DefaultSecurityGroup(Ec2Handler):
    """Adopts a VPC's default group and removes all of its rules; deleting it leaves it as it is."""

    kind = "security-group"
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

    def observed(self, clients: Clients, found: Values, state: Values) -> Values:
        return {"vpcId": found["VpcId"]}

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
