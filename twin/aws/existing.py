"""The functions by which the program reads a VPC and a cluster that are there already."""

from __future__ import annotations

from typing import Any

from twin.aws.base.clients import Clients
from twin.aws.base.errors import HandlerError
from twin.aws.base.handler import Invoke, Values
from twin.aws.base.tags import from_list
from twin.aws.eks import lookup
from twin.aws.invokes import filters, only

# What a route may lead to, as EC2 and as the provider calls it.
_TARGETS = {
    "CarrierGatewayId": "carrierGatewayId",
    "CoreNetworkArn": "coreNetworkArn",
    "GatewayId": "gatewayId",
    "InstanceId": "instanceId",
    "LocalGatewayId": "localGatewayId",
    "NatGatewayId": "natGatewayId",
    "NetworkInterfaceId": "networkInterfaceId",
    "TransitGatewayId": "transitGatewayId",
    "VpcPeeringConnectionId": "vpcPeeringConnectionId",
}


def get_vpcs(clients: Clients, arguments: Values) -> Values:
    """Answer ``aws.ec2.get_vpcs``: ids, none where nothing matches."""
    only("aws:ec2/getVpcs:getVpcs", arguments, {"filters"})
    found = clients("ec2").describe_vpcs(Filters=filters(arguments))["Vpcs"]
    return {**arguments, "id": clients.region, "ids": [vpc["VpcId"] for vpc in found]}


def get_vpc(clients: Clients, arguments: Values) -> Values:
    """Answer ``aws.ec2.get_vpc`` by id."""
    only("aws:ec2/getVpc:getVpc", arguments, {"id"})
    ec2 = clients("ec2")
    vpc = ec2.describe_vpcs(VpcIds=[arguments["id"]])["Vpcs"][0]
    dns = {
        f"{name[0].lower()}{name[1:]}": ec2.describe_vpc_attribute(VpcId=vpc["VpcId"], Attribute=attribute)[name]["Value"]
        for attribute, name in (("enableDnsSupport", "EnableDnsSupport"), ("enableDnsHostnames", "EnableDnsHostnames"))
    }
    blocks = [
        {"associationId": block["AssociationId"], "cidrBlock": block["CidrBlock"], "state": block["CidrBlockState"]["State"]}
        for block in vpc["CidrBlockAssociationSet"]
    ]
    return {
        **arguments,
        **dns,
        "cidrBlock": vpc["CidrBlock"],
        "cidrBlockAssociations": blocks,
        "tags": from_list(vpc.get("Tags")),
    }


def get_subnets(clients: Clients, arguments: Values) -> Values:
    """Answer ``aws.ec2.get_subnets``: ids, none where nothing matches."""
    only("aws:ec2/getSubnets:getSubnets", arguments, {"filters"})
    found = clients("ec2").describe_subnets(Filters=filters(arguments))["Subnets"]
    return {**arguments, "id": clients.region, "ids": [subnet["SubnetId"] for subnet in found]}


def get_subnet(clients: Clients, arguments: Values) -> Values:
    """Answer ``aws.ec2.get_subnet`` by id."""
    only("aws:ec2/getSubnet:getSubnet", arguments, {"id"})
    subnet = clients("ec2").describe_subnets(SubnetIds=[arguments["id"]])["Subnets"][0]
    return {
        **arguments,
        "availabilityZone": subnet["AvailabilityZone"],
        "availableIpAddressCount": subnet["AvailableIpAddressCount"],
        "cidrBlock": subnet["CidrBlock"],
        "tags": from_list(subnet.get("Tags")),
        "vpcId": subnet["VpcId"],
    }


def get_route_tables(clients: Clients, arguments: Values) -> Values:
    """Answer ``aws.ec2.get_route_tables``: the ids of a VPC's."""
    only("aws:ec2/getRouteTables:getRouteTables", arguments, {"vpcId"})
    of_it = [{"Name": "vpc-id", "Values": [arguments["vpcId"]]}]
    found = clients("ec2").describe_route_tables(Filters=of_it)["RouteTables"]
    return {**arguments, "id": clients.region, "ids": [table["RouteTableId"] for table in found]}


def get_route_table(clients: Clients, arguments: Values) -> Values:
    """Answer ``aws.ec2.get_route_table`` by id: what a route does not have is empty text, as the provider has it."""
    only("aws:ec2/getRouteTable:getRouteTable", arguments, {"routeTableId"})
    table = clients("ec2").describe_route_tables(RouteTableIds=[arguments["routeTableId"]])["RouteTables"][0]
    routes = [
        {
            "cidrBlock": route.get("DestinationCidrBlock", ""),
            **{name: route.get(key) or "" for key, name in _TARGETS.items()},
        }
        for route in table["Routes"]
    ]
    associations = [
        {"main": one["Main"], "subnetId": one.get("SubnetId", ""), "routeTableId": table["RouteTableId"]}
        for one in table["Associations"]
    ]
    return {
        **arguments,
        "id": table["RouteTableId"],
        "vpcId": table["VpcId"],
        "routes": routes,
        "associations": associations,
    }


def get_vpc_endpoint(clients: Clients, arguments: Values) -> Values:
    """Answer ``aws.ec2.get_vpc_endpoint``; where there is none, or more than one, in the provider's words."""
    only("aws:ec2/getVpcEndpoint:getVpcEndpoint", arguments, {"vpcId", "serviceName"})
    asked = {"vpc-id": arguments["vpcId"], "service-name": arguments["serviceName"]}
    found = clients("ec2").describe_vpc_endpoints(
        Filters=[{"Name": name, "Values": [value]} for name, value in asked.items()]
    )["VpcEndpoints"]
    living = [endpoint for endpoint in found if str(endpoint["State"]).lower() not in ("deleted", "deleting")]
    if not living:
        raise HandlerError("no matching EC2 VPC Endpoint found")
    if len(living) > 1:
        raise HandlerError(
            "multiple EC2 VPC Endpoints matched; use additional constraints to reduce matches to a single EC2 VPC Endpoint"
        )
    return {**arguments, "id": living[0]["VpcEndpointId"], "vpcEndpointType": living[0]["VpcEndpointType"]}


def get_clusters(clients: Clients, arguments: Values) -> Values:
    """Answer ``aws.eks.get_clusters``: all names."""
    only("aws:eks/getClusters:getClusters", arguments, ())
    return {"id": clients.region, "names": clients("eks").list_clusters()["clusters"]}


def get_cluster(clients: Clients, arguments: Values) -> Values:
    """Answer ``aws.eks.get_cluster``; what moto drops comes from the twin's own record of the cluster."""
    only("aws:eks/getCluster:getCluster", arguments, {"name"})
    name = arguments["name"]
    found, kept = lookup.require_cluster(clients, name, "aws.eks.getCluster"), lookup.record(clients, name)
    vpc: dict[str, Any] = found["resourcesVpcConfig"]
    return {
        **arguments,
        "id": name,
        "accessConfigs": [{"authenticationMode": "CONFIG_MAP", **kept.get("accessConfig", {})}],
        "arn": found["arn"],
        "certificateAuthorities": [{"data": found["certificateAuthority"]["data"]}],
        "endpoint": found["endpoint"],
        "identities": [{"oidcs": [{"issuer": found["identity"]["oidc"]["issuer"]}]}],
        "status": found["status"],
        "version": kept.get("version", found["version"]),
        "vpcConfig": {
            "clusterSecurityGroupId": kept.get("clusterSecurityGroupId", vpc.get("clusterSecurityGroupId", "")),
            "subnetIds": vpc["subnetIds"],
            "vpcId": kept.get("vpcId", vpc.get("vpcId", "")),
        },
    }


def get_open_id_connect_provider(clients: Clients, arguments: Values) -> Values:
    """Answer ``aws.iam.get_open_id_connect_provider`` by ARN; where there is none, with IAM's own NoSuchEntity."""
    only("aws:iam/getOpenIdConnectProvider:getOpenIdConnectProvider", arguments, {"arn"})
    found = clients("iam").get_open_id_connect_provider(OpenIDConnectProviderArn=arguments["arn"])
    return {**arguments, "id": arguments["arn"], "url": found["Url"], "clientIdLists": found["ClientIDList"]}


INVOKES: dict[str, Invoke] = {
    "aws:ec2/getRouteTable:getRouteTable": get_route_table,
    "aws:ec2/getRouteTables:getRouteTables": get_route_tables,
    "aws:ec2/getSubnet:getSubnet": get_subnet,
    "aws:ec2/getSubnets:getSubnets": get_subnets,
    "aws:ec2/getVpc:getVpc": get_vpc,
    "aws:ec2/getVpcEndpoint:getVpcEndpoint": get_vpc_endpoint,
    "aws:ec2/getVpcs:getVpcs": get_vpcs,
    "aws:eks/getCluster:getCluster": get_cluster,
    "aws:eks/getClusters:getClusters": get_clusters,
    "aws:iam/getOpenIdConnectProvider:getOpenIdConnectProvider": get_open_id_connect_provider,
}
