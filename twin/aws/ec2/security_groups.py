"""Security groups and their rules, one resource per rule."""

from __future__ import annotations

from typing import Any, ClassVar

from twin.aws.base.clients import Clients
from twin.aws.base.errors import HandlerError
from twin.aws.base.handler import Values
from twin.aws.base.lookup import gone_is_fine
from twin.aws.ec2 import api
from twin.aws.ec2.api import Ec2Handler

_SOURCES = ("cidrIpv4", "referencedSecurityGroupId")


class SecurityGroup(Ec2Handler):
    """A group without inline rules: each rule is a separate resource."""

    kind = "security-group"
    token = "aws:ec2/securityGroup:SecurityGroup"
    inputs = frozenset({"name", "description", "vpcId", "tags"})
    defaults: ClassVar[Values] = {"description": "Managed by Pulumi"}
    computed = frozenset({"arn", "ownerId"})
    replace_on = frozenset({"name", "description", "vpcId"})
    name_input = "name"

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        api.require(clients, "vpc", inputs["vpcId"], f"security group {inputs['name']}")
        id = clients("ec2").create_security_group(
            GroupName=inputs["name"],
            Description=inputs.get("description", self.defaults["description"]),
            VpcId=inputs["vpcId"],
            **api.tag_specifications("security-group", inputs),
        )["GroupId"]
        # Like the official provider, remove the default rule that allows all egress; allowed egress is declared.
        _revoke_all(clients, id)
        return id, self.outputs(inputs, api.own(clients, f"security-group/{id}"))

    def observed(self, clients: Clients, found: Values, state: Values) -> Values:
        return {"name": found["GroupName"], "description": found["Description"], "vpcId": found["VpcId"]}

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        """Delete it unless an interface or endpoint uses it (DependencyViolation), which moto does not check."""
        if users := _users(clients, id):
            raise HandlerError(f"security group {id} is in use by {', '.join(users)}")
        super().delete(clients, id, state)


class DefaultSecurityGroup(Ec2Handler):
    """Adopt a VPC's default group and remove all of its rules; a delete leaves it unchanged."""

    kind = "security-group"
    token = "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup"
    inputs = frozenset({"vpcId", "tags"})
    computed = frozenset({"arn", "description", "name", "ownerId"})
    replace_on = frozenset({"vpcId"})

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        filters = [{"Name": "vpc-id", "Values": [inputs["vpcId"]]}, {"Name": "group-name", "Values": ["default"]}]
        group: dict[str, Any] = clients("ec2").describe_security_groups(Filters=filters)["SecurityGroups"][0]
        id = group["GroupId"]
        _revoke_all(clients, id)
        api.retag(clients, id, {}, inputs)
        names = {"description": group["Description"], "name": group["GroupName"]}
        return id, self.outputs(inputs, {**api.own(clients, f"security-group/{id}"), **names})

    def observed(self, clients: Clients, found: Values, state: Values) -> Values:
        return {"vpcId": found["VpcId"]}

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        """Do nothing: AWS deletes the default group only with its VPC."""


def _users(clients: Clients, id: str) -> list[str]:
    """Return interfaces and endpoints with this group (moto gives an endpoint's interfaces no groups)."""
    ec2 = clients("ec2")
    found = ec2.describe_network_interfaces(Filters=[{"Name": "group-id", "Values": [id]}])["NetworkInterfaces"]
    endpoints = [
        endpoint["VpcEndpointId"]
        for endpoint in ec2.describe_vpc_endpoints()["VpcEndpoints"]
        if endpoint["State"] != "deleted" and id in [group["GroupId"] for group in endpoint.get("Groups", [])]
    ]
    return sorted({interface["NetworkInterfaceId"] for interface in found} | set(endpoints))


def _revoke_all(clients: Clients, group_id: str) -> None:
    ec2 = clients("ec2")
    found = ec2.describe_security_group_rules(Filters=[{"Name": "group-id", "Values": [group_id]}])
    for rule in found["SecurityGroupRules"]:
        revoke = ec2.revoke_security_group_egress if rule["IsEgress"] else ec2.revoke_security_group_ingress
        revoke(GroupId=group_id, SecurityGroupRuleIds=[rule["SecurityGroupRuleId"]])


class _SecurityGroupRule(Ec2Handler):
    kind = "security-group-rule"
    inputs = frozenset({"securityGroupId", "description", "ipProtocol", "fromPort", "toPort", *_SOURCES, "tags"})
    computed = frozenset({"arn", "securityGroupRuleId"})
    replace_on = frozenset({"securityGroupId"})
    direction: ClassVar[str]

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        where = f"{self.direction} rule of {inputs['securityGroupId']}"
        for key in ("securityGroupId", "referencedSecurityGroupId"):
            if key in inputs:
                api.require(clients, "security-group", inputs[key], where)
        authorize = getattr(clients("ec2"), f"authorize_security_group_{self.direction}")
        rule = authorize(
            GroupId=inputs["securityGroupId"],
            IpPermissions=[_permission(inputs)],
            **api.tag_specifications("security-group-rule", inputs),
        )["SecurityGroupRules"][0]
        id = rule["SecurityGroupRuleId"]
        computed = {"arn": clients.arn("ec2", f"security-group-rule/{id}"), "securityGroupRuleId": id}
        return id, self.outputs(inputs, computed)

    def observed(self, clients: Clients, found: Values, state: Values) -> Values:
        shown = {
            "ipProtocol": found["IpProtocol"],
            "fromPort": found.get("FromPort"),
            "toPort": found.get("ToPort"),
            "cidrIpv4": found.get("CidrIpv4"),
            "referencedSecurityGroupId": found.get("ReferencedGroupInfo", {}).get("GroupId"),
            "description": found.get("Description"),
        }
        # Only the declared values: for "all protocols", AWS fills in ports.
        seen = {key: value for key, value in shown.items() if key in state}
        if "referencedSecurityGroupId" in seen:
            seen.pop("description", None)  # moto returns descriptions only for rules about address ranges
        return seen

    def update(self, clients: Clients, id: str, old: Values, new: Values) -> Values:
        rule = {
            "IpProtocol": new["ipProtocol"],
            "FromPort": new.get("fromPort", -1),
            "ToPort": new.get("toPort", -1),
            "Description": new.get("description", ""),
        }
        if "cidrIpv4" in new:
            rule["CidrIpv4"] = new["cidrIpv4"]
        else:
            rule["ReferencedGroupId"] = new["referencedSecurityGroupId"]
        if {**old, "tags": None} != {**self.kept(new, old), "tags": None}:
            clients("ec2").modify_security_group_rules(
                GroupId=new["securityGroupId"],
                SecurityGroupRules=[{"SecurityGroupRuleId": id, "SecurityGroupRule": rule}],
            )
        return super().update(clients, id, old, new)

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        revoke = getattr(clients("ec2"), f"revoke_security_group_{self.direction}")
        if api.describe(clients, "security-group-rule", id) is not None:
            with gone_is_fine():
                revoke(GroupId=state["securityGroupId"], SecurityGroupRuleIds=[id])


class SecurityGroupIngressRule(_SecurityGroupRule):
    token = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"
    direction = "ingress"


class SecurityGroupEgressRule(_SecurityGroupRule):
    token = "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule"
    direction = "egress"


def _permission(inputs: Values) -> dict[str, Any]:
    description = {"Description": inputs["description"]} if "description" in inputs else {}
    permission: dict[str, Any] = {"IpProtocol": inputs["ipProtocol"]}
    if "fromPort" in inputs:
        permission |= {"FromPort": inputs["fromPort"], "ToPort": inputs["toPort"]}
    if "cidrIpv4" in inputs:
        permission["IpRanges"] = [{"CidrIp": inputs["cidrIpv4"], **description}]
    else:
        permission["UserIdGroupPairs"] = [{"GroupId": inputs["referencedSecurityGroupId"], **description}]
    return permission
