"""VPC, subnets, gateways, routes and endpoints.

The handlers refuse unknown ids that moto accepts (docs/facts/moto.md). They use the codes of
https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html.
"""

from __future__ import annotations

import json
import zlib
from typing import Any, ClassVar

from twin.aws.base.clients import Clients
from twin.aws.base.errors import HandlerError
from twin.aws.base.handler import Handler, Values
from twin.aws.base.lookup import gone_is_fine
from twin.aws.ec2 import api
from twin.aws.ec2.api import Ec2Handler

_DNS = {"enableDnsSupport": "EnableDnsSupport", "enableDnsHostnames": "EnableDnsHostnames"}
_TARGETS = {"gatewayId": "GatewayId", "natGatewayId": "NatGatewayId"}
_MEMBERS = {"routeTableIds": "RouteTable", "subnetIds": "Subnet", "securityGroupIds": "SecurityGroup"}
"""The lists of an endpoint, with EC2's names for their changes."""

_RETIRED = ("ec2messages",)
"""Services that AWS retired (docs/facts/eks.md#endpoint-services); moto still lists them."""


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

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        vpc = clients("ec2").create_vpc(
            CidrBlock=inputs["cidrBlock"],
            InstanceTenancy=inputs.get("instanceTenancy", "default"),
            **api.tag_specifications("vpc", inputs),
        )["Vpc"]
        self._set_dns(clients, vpc["VpcId"], inputs)
        return vpc["VpcId"], self.outputs(inputs, self._computed(clients, vpc["VpcId"], vpc))

    def observed(self, clients: Clients, found: Values, state: Values) -> Values:
        dns = {key: has_dns(clients, found["VpcId"], key) for key in _DNS}
        return {**dns, **self._computed(clients, found["VpcId"], found), "cidrBlock": found["CidrBlock"]}

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


def has_dns(clients: Clients, vpc_id: str, attribute: str) -> bool:
    """Return one of a VPC's two DNS attributes."""
    answer = clients("ec2").describe_vpc_attribute(VpcId=vpc_id, Attribute=attribute)
    return bool(answer[_DNS[attribute]]["Value"])


def require_dns(clients: Clients, vpc_id: str, where: str) -> None:
    """Require both DNS attributes for private names:
    https://docs.aws.amazon.com/vpc/latest/userguide/AmazonDNS-concepts.html.
    """
    for attribute in _DNS:
        if not has_dns(clients, vpc_id, attribute):
            raise HandlerError(f"{where}: private DNS needs {attribute} on {vpc_id}")


class InternetGateway(Ec2Handler):
    kind = "internet-gateway"
    token = "aws:ec2/internetGateway:InternetGateway"
    inputs = frozenset({"vpcId", "tags"})
    computed = frozenset({"arn", "ownerId"})
    replace_on = frozenset({"vpcId"})

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        ec2 = clients("ec2")
        gateway = ec2.create_internet_gateway(**api.tag_specifications("internet-gateway", inputs))
        id = gateway["InternetGateway"]["InternetGatewayId"]
        if "vpcId" in inputs:
            ec2.attach_internet_gateway(InternetGatewayId=id, VpcId=inputs["vpcId"])
        return id, self.outputs(inputs, api.own(clients, f"internet-gateway/{id}"))

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

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        zone = {"AvailabilityZone": inputs["availabilityZone"]} if "availabilityZone" in inputs else {}
        subnet = clients("ec2").create_subnet(
            VpcId=inputs["vpcId"], CidrBlock=inputs["cidrBlock"], **zone, **api.tag_specifications("subnet", inputs)
        )["Subnet"]
        if inputs.get("mapPublicIpOnLaunch"):
            self._map_public_ip(clients, subnet["SubnetId"], True)
        return subnet["SubnetId"], self.outputs(inputs, self._computed(clients, subnet))

    def observed(self, clients: Clients, found: Values, state: Values) -> Values:
        names = {"vpcId": "VpcId", "cidrBlock": "CidrBlock", "mapPublicIpOnLaunch": "MapPublicIpOnLaunch"}
        return {**self._computed(clients, found), **{key: found[name] for key, name in names.items()}}

    def update(self, clients: Clients, id: str, old: Values, new: Values) -> Values:
        self._map_public_ip(clients, id, new.get("mapPublicIpOnLaunch", False))
        return super().update(clients, id, old, new)

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        """Delete it unless it contains something (DependencyViolation), which moto does not check."""
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


class Eip(Ec2Handler):
    kind = "elastic-ip"
    token = "aws:ec2/eip:Eip"
    inputs = frozenset({"domain", "tags"})
    computed = frozenset({"allocationId", "arn", "publicIp"})
    replace_on = frozenset({"domain"})

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        address = clients("ec2").allocate_address(Domain="vpc", **api.tag_specifications("elastic-ip", inputs))
        id = address["AllocationId"]
        computed = {"allocationId": id, "arn": clients.arn("ec2", f"elastic-ip/{id}"), "publicIp": address["PublicIp"]}
        return id, self.outputs(inputs, computed)

    def observed(self, clients: Clients, found: Values, state: Values) -> Values:
        return {"publicIp": found["PublicIp"]}

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        """Release it unless a NAT gateway uses it (InvalidIPAddress.InUse), which moto does not check."""
        if user := _nat_using(clients, id):
            raise HandlerError(f"elastic IP {id} is in use by NAT gateway {user}")
        with gone_is_fine():
            clients("ec2").release_address(AllocationId=id)


class NatGateway(Ec2Handler):
    kind = "natgateway"
    token = "aws:ec2/natGateway:NatGateway"
    inputs = frozenset({"allocationId", "subnetId", "connectivityType", "tags"})
    defaults: ClassVar[Values] = {"connectivityType": "public"}
    computed = frozenset({"associationId", "networkInterfaceId", "privateIp", "publicIp"})
    replace_on = frozenset({"allocationId", "subnetId", "connectivityType"})

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        subnet = api.require(clients, "subnet", inputs["subnetId"], "NAT gateway")
        allocation = {"AllocationId": inputs["allocationId"]} if "allocationId" in inputs else {}
        gateways = clients("ec2").describe_internet_gateways(
            Filters=[{"Name": "attachment.vpc-id", "Values": [subnet["VpcId"]]}]
        )["InternetGateways"]
        if allocation and not gateways:
            # "Gateway.NotAttached": https://docs.aws.amazon.com/vpc/latest/userguide/nat-gateway-troubleshooting.html
            raise HandlerError(f"NAT gateway: VPC {subnet['VpcId']} has no internet gateway attached")
        nat = clients("ec2").create_nat_gateway(
            SubnetId=inputs["subnetId"],
            ConnectivityType=inputs.get("connectivityType", "public"),
            **allocation,
            **api.tag_specifications("natgateway", inputs),
        )["NatGateway"]
        return nat["NatGatewayId"], self.outputs(inputs, self._computed(nat))

    def observed(self, clients: Clients, found: Values, state: Values) -> Values:
        return {**self._computed(found), "subnetId": found["SubnetId"]}

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        super().delete(clients, id, state)
        # AWS also removes the gateway's interface; moto leaves it in the subnet.
        if state.get("networkInterfaceId"):
            with gone_is_fine():
                clients("ec2").delete_network_interface(NetworkInterfaceId=state["networkInterfaceId"])

    @staticmethod
    def _computed(nat: dict[str, Any]) -> Values:
        address = nat["NatGatewayAddresses"][0]
        return {
            "associationId": address.get("AssociationId", ""),
            "networkInterfaceId": address["NetworkInterfaceId"],
            "privateIp": address["PrivateIp"],
            "publicIp": address.get("PublicIp", ""),
        }


def _nat_using(clients: Clients, allocation_id: str) -> str | None:
    for nat in clients("ec2").describe_nat_gateways()["NatGateways"]:
        held = [address.get("AllocationId") for address in nat["NatGatewayAddresses"]]
        if nat["State"] not in ("deleted", "deleting") and allocation_id in held:
            return str(nat["NatGatewayId"])
    return None


class RouteTable(Ec2Handler):
    kind = "route-table"
    token = "aws:ec2/routeTable:RouteTable"
    inputs = frozenset({"vpcId", "tags"})
    computed = frozenset({"arn", "ownerId"})
    replace_on = frozenset({"vpcId"})

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        table = clients("ec2").create_route_table(VpcId=inputs["vpcId"], **api.tag_specifications("route-table", inputs))
        id = table["RouteTable"]["RouteTableId"]
        return id, self.outputs(inputs, api.own(clients, f"route-table/{id}"))

    def observed(self, clients: Clients, found: Values, state: Values) -> Values:
        return {"vpcId": found["VpcId"]}


class Route(Handler):
    token = "aws:ec2/route:Route"
    inputs = frozenset({"routeTableId", "destinationCidrBlock", *_TARGETS})
    computed = frozenset({"origin", "state"})
    replace_on = frozenset({"routeTableId", "destinationCidrBlock"})
    delete_before_replace = True

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        self._check_target(clients, inputs)
        clients("ec2").create_route(**self._parameters(inputs))
        id = f"r-{inputs['routeTableId']}{zlib.crc32(inputs['destinationCidrBlock'].encode())}"
        return id, self.outputs(inputs, {"origin": "CreateRoute", "state": "active"})

    def read(self, clients: Clients, id: str, state: Values) -> Values | None:
        route = self._find(clients, state)
        if route is None:
            return None
        targets = {key: route[name] for key, name in _TARGETS.items() if route.get(name)}
        rest = {key: value for key, value in state.items() if key not in _TARGETS}
        return {**rest, **targets, "state": route["State"], "origin": route["Origin"]}

    def update(self, clients: Clients, id: str, old: Values, new: Values) -> Values:
        self._check_target(clients, new)
        clients("ec2").replace_route(**self._parameters(new))
        return self.kept(new, old)

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        if self._find(clients, state) is not None:
            clients("ec2").delete_route(
                RouteTableId=state["routeTableId"], DestinationCidrBlock=state["destinationCidrBlock"]
            )

    @staticmethod
    def _parameters(inputs: Values) -> Values:
        targets = {name: inputs[key] for key, name in _TARGETS.items() if key in inputs}
        return {
            "RouteTableId": inputs["routeTableId"],
            "DestinationCidrBlock": inputs["destinationCidrBlock"],
            **targets,
        }

    @staticmethod
    def _find(clients: Clients, state: Values) -> dict[str, Any] | None:
        table = api.describe(clients, "route-table", state["routeTableId"])
        for route in table["Routes"] if table else ():
            if route.get("DestinationCidrBlock") == state["destinationCidrBlock"]:
                return dict(route)
        return None

    @staticmethod
    def _check_target(clients: Clients, inputs: Values) -> None:
        where = f"route {inputs['destinationCidrBlock']} of {inputs['routeTableId']}"
        vpc = api.require(clients, "route-table", inputs["routeTableId"], where)["VpcId"]
        if "gatewayId" in inputs:
            gateway = api.require(clients, "internet-gateway", inputs["gatewayId"], where)
            if vpc not in [attachment["VpcId"] for attachment in gateway["Attachments"]]:
                raise HandlerError(f"{where}: internet gateway {inputs['gatewayId']} is not attached to {vpc}")
        if "natGatewayId" in inputs:
            api.require(clients, "natgateway", inputs["natGatewayId"], where)


class RouteTableAssociation(Handler):
    token = "aws:ec2/routeTableAssociation:RouteTableAssociation"
    inputs = frozenset({"subnetId", "routeTableId"})
    replace_on = frozenset({"subnetId"})
    delete_before_replace = True

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        subnet_id, table_id = inputs["subnetId"], inputs["routeTableId"]
        if (other := self._find(clients, subnet_id)) is not None:
            # EC2: Resource.AlreadyAssociated
            raise HandlerError(f"subnet {subnet_id} is already associated with route table {other['RouteTableId']}")
        answer = clients("ec2").associate_route_table(SubnetId=subnet_id, RouteTableId=table_id)
        return answer["AssociationId"], self.outputs(inputs, {})

    def read(self, clients: Clients, id: str, state: Values) -> Values | None:
        association = self._find(clients, state["subnetId"])
        return None if association is None else {**state, "routeTableId": association["RouteTableId"]}

    def update(self, clients: Clients, id: str, old: Values, new: Values) -> Values:
        association = self._find(clients, new["subnetId"])
        if association is None:
            raise HandlerError(f"subnet {new['subnetId']} has no route table association to change")
        clients("ec2").replace_route_table_association(
            AssociationId=association["RouteTableAssociationId"], RouteTableId=new["routeTableId"]
        )
        return self.kept(new, old)

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        # Find it by its subnet, because an update gives the association a new id.
        association = self._find(clients, state["subnetId"])
        if association is not None:
            with gone_is_fine():
                clients("ec2").disassociate_route_table(AssociationId=association["RouteTableAssociationId"])

    @staticmethod
    def _find(clients: Clients, subnet_id: str) -> dict[str, Any] | None:
        filters = [{"Name": "association.subnet-id", "Values": [subnet_id]}]
        for table in clients("ec2").describe_route_tables(Filters=filters)["RouteTables"]:
            for association in table["Associations"]:
                if association.get("SubnetId") == subnet_id:
                    return {**association, "RouteTableId": table["RouteTableId"]}
        return None


class VpcEndpoint(Ec2Handler):
    kind = "vpc-endpoint"
    token = "aws:ec2/vpcEndpoint:VpcEndpoint"
    inputs = frozenset({"vpcId", "serviceName", "vpcEndpointType", "policy", "privateDnsEnabled", *_MEMBERS, "tags"})
    defaults: ClassVar[Values] = {"vpcEndpointType": "Gateway"}
    computed = frozenset({"arn", "networkInterfaceIds", "ownerId", "policy", "prefixListId", "state"})
    replace_on = frozenset({"vpcId", "serviceName", "vpcEndpointType"})
    unordered = frozenset(_MEMBERS)

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        self._check_references(clients, inputs)
        policy = {"PolicyDocument": inputs["policy"]} if "policy" in inputs else {}
        names = [key for key in ("vpcId", "serviceName", "vpcEndpointType", "privateDnsEnabled") if key in inputs]
        endpoint = clients("ec2").create_vpc_endpoint(
            **{f"{key[0].upper()}{key[1:]}": inputs[key] for key in names},
            **{f"{name}Ids": inputs[key] for key, name in _MEMBERS.items() if inputs.get(key)},
            **policy,
            **api.tag_specifications("vpc-endpoint", inputs),
        )["VpcEndpoint"]
        return endpoint["VpcEndpointId"], self.outputs(inputs, self._computed(clients, endpoint, inputs))

    def observed(self, clients: Clients, found: Values, state: Values) -> Values:
        shown = {
            "routeTableIds": found.get("RouteTableIds", []),
            "subnetIds": found.get("SubnetIds", []),
            "securityGroupIds": [group["GroupId"] for group in found.get("Groups", [])],
        }
        seen = {
            key: state[key] if sorted(state[key]) == sorted(shown[key]) else sorted(shown[key])
            for key in shown
            if key in state
        }
        return {**seen, **self._computed(clients, found, state)}

    def update(self, clients: Clients, id: str, old: Values, new: Values) -> Values:
        self._check_references(clients, new)
        changes: Values = {}
        for key, name in _MEMBERS.items():
            before, after = set(old.get(key, [])), set(new.get(key, []))
            changes |= {f"Add{name}Ids": sorted(after - before)} if after - before else {}
            changes |= {f"Remove{name}Ids": sorted(before - after)} if before - after else {}
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
        if "policy" in inputs and policy and json.loads(policy) == json.loads(inputs["policy"]):
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
    def _check_references(clients: Clients, inputs: Values) -> None:
        where = f"VPC endpoint for {inputs['serviceName']}"
        api.require(clients, "vpc", inputs["vpcId"], where)
        retired = inputs["serviceName"].rpartition(".")[2] in _RETIRED
        if retired or inputs["serviceName"] not in clients.endpoint_services:
            raise HandlerError(f"{where}: no such endpoint service in {clients.region}")  # EC2: InvalidServiceName
        for key, kind in (("routeTableIds", "route-table"), ("subnetIds", "subnet"), ("securityGroupIds", "security-group")):
            api.require_all(clients, kind, inputs.get(key, []), where)
        if inputs.get("privateDnsEnabled"):
            require_dns(clients, inputs["vpcId"], where)


def _prefix_list(clients: Clients, endpoint: Values) -> str:
    if endpoint["VpcEndpointType"] != "Gateway":
        return ""
    filters = [{"Name": "prefix-list-name", "Values": [endpoint["ServiceName"]]}]
    lists = clients("ec2").describe_prefix_lists(Filters=filters)["PrefixLists"]
    return str(lists[0]["PrefixListId"]) if lists else ""
