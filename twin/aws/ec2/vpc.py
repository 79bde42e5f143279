"""VPC, internet gateway and subnet."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import ClassVar

from twin.aws.base.clients import Clients
from twin.aws.base.errors import HandlerError, Problem
from twin.aws.base.handler import Values
from twin.aws.base.lookup import gone_is_fine
from twin.aws.ec2 import api
from twin.aws.ec2.api import Ec2Handler

_DNS = {"enableDnsSupport": "EnableDnsSupport", "enableDnsHostnames": "EnableDnsHostnames"}


class Vpc(Ec2Handler):
    kind = "vpc"
    token = "aws:ec2/vpc:Vpc"
    inputs = frozenset({"cidrBlock", "enableDnsSupport", "enableDnsHostnames", "instanceTenancy", "tags"})
    defaults: ClassVar[Values] = {"enableDnsSupport": True, "enableDnsHostnames": False, "instanceTenancy": "default"}
    computed = frozenset(
        {"arn", "defaultNetworkAclId", "defaultRouteTableId", "defaultSecurityGroupId", "dhcpOptionsId"}
        | {"mainRouteTableId", "ownerId"}
    )
    replace_on = frozenset({"cidrBlock"})

    def rules(self, inputs: Values) -> Iterable[Problem]:
        if "cidrBlock" not in inputs:
            yield Problem("cidrBlock", "required: the twin has no IPAM pools")
        yield from api.cidr_problem("cidrBlock", inputs.get("cidrBlock"), widest=16, narrowest=28)
        if inputs.get("enableDnsHostnames") is True and inputs.get("enableDnsSupport") is False:
            yield Problem("enableDnsHostnames", "needs enableDnsSupport")

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        vpc = clients("ec2").create_vpc(
            CidrBlock=inputs["cidrBlock"],
            InstanceTenancy=inputs.get("instanceTenancy", "default"),
            **api.tag_specifications("vpc", inputs),
        )["Vpc"]
        self._set_dns(clients, vpc["VpcId"], inputs)
        return vpc["VpcId"], self.outputs(inputs, self._computed(clients, vpc["VpcId"], vpc))

    def observed(self, clients: Clients, found: Values, state: Values) -> Values:
        ec2, id = clients("ec2"), found["VpcId"]
        dns = {key: ec2.describe_vpc_attribute(VpcId=id, Attribute=key)[name]["Value"] for key, name in _DNS.items()}
        return {**dns, **self._computed(clients, id, found), "cidrBlock": found["CidrBlock"]}

    def update(self, clients: Clients, id: str, old: Values, new: Values) -> Values:
        self._set_dns(clients, id, {**self.defaults, **new})
        return super().update(clients, id, old, new)

    @staticmethod
    def _set_dns(clients: Clients, id: str, inputs: Values) -> None:
        for key, name in _DNS.items():
            if key in inputs:
                clients("ec2").modify_vpc_attribute(VpcId=id, **{name: {"Value": inputs[key]}})

    @staticmethod
    def _computed(clients: Clients, id: str, vpc: Values) -> Values:
        ec2 = clients("ec2")
        mine = [{"Name": "vpc-id", "Values": [id]}]
        groups = ec2.describe_security_groups(Filters=[*mine, {"Name": "group-name", "Values": ["default"]}])
        tables = ec2.describe_route_tables(Filters=[*mine, {"Name": "association.main", "Values": ["true"]}])
        acls = ec2.describe_network_acls(Filters=[*mine, {"Name": "default", "Values": ["true"]}])
        main = tables["RouteTables"][0]["RouteTableId"]
        return {
            "arn": clients.arn("ec2", f"vpc/{id}"),
            "defaultNetworkAclId": acls["NetworkAcls"][0]["NetworkAclId"],
            "defaultRouteTableId": main,
            "mainRouteTableId": main,
            "defaultSecurityGroupId": groups["SecurityGroups"][0]["GroupId"],
            "dhcpOptionsId": vpc.get("DhcpOptionsId", ""),
            "ownerId": clients.account_id,
        }


class InternetGateway(Ec2Handler):
    kind = "internet-gateway"
    token = "aws:ec2/internetGateway:InternetGateway"
    inputs = frozenset({"vpcId", "tags"})
    computed = frozenset({"arn", "ownerId"})
    replace_on = frozenset({"vpcId"})

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        ec2 = clients("ec2")
        if "vpcId" in inputs:
            api.require(clients, "vpc", inputs["vpcId"], "internet gateway")
        gateway = ec2.create_internet_gateway(**api.tag_specifications("internet-gateway", inputs))
        id = gateway["InternetGateway"]["InternetGatewayId"]
        if "vpcId" in inputs:
            ec2.attach_internet_gateway(InternetGatewayId=id, VpcId=inputs["vpcId"])
        computed = {"arn": clients.arn("ec2", f"internet-gateway/{id}"), "ownerId": clients.account_id}
        return id, self.outputs(inputs, computed)

    def observed(self, clients: Clients, found: Values, state: Values) -> Values:
        attached = [attachment["VpcId"] for attachment in found["Attachments"]]
        return {"vpcId": attached[0] if attached else None}

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        with gone_is_fine():
            if state.get("vpcId"):
                clients("ec2").detach_internet_gateway(InternetGatewayId=id, VpcId=state["vpcId"])
        super().delete(clients, id, state)


class Subnet(Ec2Handler):
    kind = "subnet"
    token = "aws:ec2/subnet:Subnet"
    inputs = frozenset({"vpcId", "cidrBlock", "availabilityZone", "mapPublicIpOnLaunch", "tags"})
    defaults: ClassVar[Values] = {"mapPublicIpOnLaunch": False}
    computed = frozenset({"arn", "availabilityZone", "availabilityZoneId", "ownerId"})
    replace_on = frozenset({"vpcId", "cidrBlock", "availabilityZone"})

    def rules(self, inputs: Values) -> Iterable[Problem]:
        if "cidrBlock" not in inputs:
            yield Problem("cidrBlock", "required: the twin has no IPAM pools")
        yield from api.cidr_problem("cidrBlock", inputs.get("cidrBlock"), widest=16, narrowest=28)

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        vpc = api.require(clients, "vpc", inputs["vpcId"], "subnet")
        if not ipaddress.ip_network(inputs["cidrBlock"]).subnet_of(ipaddress.ip_network(vpc["CidrBlock"])):  # type: ignore[arg-type]
            raise HandlerError(f"subnet {inputs['cidrBlock']} is outside VPC {inputs['vpcId']} ({vpc['CidrBlock']})")
        zone = {"AvailabilityZone": inputs["availabilityZone"]} if "availabilityZone" in inputs else {}
        subnet = clients("ec2").create_subnet(
            VpcId=inputs["vpcId"],
            CidrBlock=inputs["cidrBlock"],
            **zone,
            **api.tag_specifications("subnet", inputs),
        )["Subnet"]
        if inputs.get("mapPublicIpOnLaunch"):
            self._map_public_ip(clients, subnet["SubnetId"], True)
        return subnet["SubnetId"], self.outputs(inputs, self._computed(clients, subnet))

    def observed(self, clients: Clients, found: Values, state: Values) -> Values:
        return {
            **self._computed(clients, found),
            "vpcId": found["VpcId"],
            "cidrBlock": found["CidrBlock"],
            "mapPublicIpOnLaunch": found["MapPublicIpOnLaunch"],
        }

    def update(self, clients: Clients, id: str, old: Values, new: Values) -> Values:
        self._map_public_ip(clients, id, new.get("mapPublicIpOnLaunch", False))
        return super().update(clients, id, old, new)

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        inside = clients("ec2").describe_network_interfaces(Filters=[{"Name": "subnet-id", "Values": [id]}])
        if inside["NetworkInterfaces"]:
            names = ", ".join(sorted(item["NetworkInterfaceId"] for item in inside["NetworkInterfaces"]))
            raise HandlerError(f"subnet {id} has network interfaces in it: {names}")
        super().delete(clients, id, state)

    @staticmethod
    def _map_public_ip(clients: Clients, id: str, value: bool) -> None:
        clients("ec2").modify_subnet_attribute(SubnetId=id, MapPublicIpOnLaunch={"Value": value})

    @staticmethod
    def _computed(clients: Clients, subnet: Values) -> Values:
        return {
            "arn": subnet["SubnetArn"],
            "availabilityZone": subnet["AvailabilityZone"],
            "availabilityZoneId": subnet["AvailabilityZoneId"],
            "ownerId": clients.account_id,
        }
