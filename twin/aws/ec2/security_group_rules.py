"""Security group rules, one resource per rule."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from twin.aws.base.clients import Clients
from twin.aws.base.errors import Problem
from twin.aws.base.handler import Values, known
from twin.aws.base.lookup import gone_is_fine
from twin.aws.ec2 import api
from twin.aws.ec2.api import Ec2Handler
from twin.aws.ec2.security_groups import text_problems

_SOURCES = ("cidrIpv4", "referencedSecurityGroupId")
_WITH_PORTS = ("tcp", "udp", "6", "17")
_PROTOCOLS = ("-1", "icmp", "icmpv6", *_WITH_PORTS)


class _SecurityGroupRule(Ec2Handler):
    kind = "security-group-rule"
    inputs = frozenset({"securityGroupId", "description", "ipProtocol", "fromPort", "toPort", *_SOURCES, "tags"})
    computed = frozenset({"arn", "securityGroupRuleId"})
    replace_on = frozenset({"securityGroupId"})
    direction: ClassVar[str]

    def rules(self, inputs: Values) -> Iterable[Problem]:
        if len([key for key in _SOURCES if key in inputs]) != 1:
            yield Problem("cidrIpv4", f"exactly one of {' and '.join(_SOURCES)} is required")
        yield from api.cidr_problem("cidrIpv4", inputs.get("cidrIpv4"))
        yield from text_problems(inputs, "description")
        yield from _port_problems(inputs)

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        where = f"{self.direction} rule of {inputs['securityGroupId']}"
        api.require(clients, "security-group", inputs["securityGroupId"], where)
        if "referencedSecurityGroupId" in inputs:
            api.require(clients, "security-group", inputs["referencedSecurityGroupId"], where)
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
        # Only what was declared: AWS fills ports in for "all protocols".
        seen = {key: value for key, value in shown.items() if key in state}
        if "referencedSecurityGroupId" in seen:
            seen.pop("description", None)  # moto shows that of rules about address ranges alone
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


def _port_problems(inputs: Values) -> Iterable[Problem]:
    protocol = known(inputs, "ipProtocol")
    if protocol is None:
        return
    if protocol not in _PROTOCOLS:
        yield Problem("ipProtocol", f"{protocol!r} is not one of {', '.join(_PROTOCOLS)}")
        return
    given = [key for key in ("fromPort", "toPort") if key in inputs]
    if protocol == "-1":
        if given:
            yield Problem(given[0], "a rule for all protocols (-1) has no ports")
        return
    if len(given) != 2:
        yield Problem("fromPort", f"fromPort and toPort are both required for {protocol}")
        return
    low, high = known(inputs, "fromPort"), known(inputs, "toPort")
    if protocol in _WITH_PORTS and low is not None and high is not None:
        if not (0 <= low <= 65535 and 0 <= high <= 65535):
            yield Problem("fromPort", f"ports {low}-{high} are not within 0-65535")
        elif low > high:
            yield Problem("fromPort", f"{low} is above toPort {high}")
