"""Functions (data sources) of the program, including those that read an existing VPC and cluster."""

from __future__ import annotations

import json
from collections.abc import Set as AbstractSet
from typing import Any

from spec.names import dns_suffix
from twin.aws.base import tags
from twin.aws.base.clients import Clients
from twin.aws.base.errors import HandlerError, InvalidInputs, Problem
from twin.aws.base.handler import Invoke, Values
from twin.aws.base.lookup import or_none
from twin.aws.eks import lookup

# Route targets, in EC2's and the provider's spelling.
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


def _availability_zones(clients: Clients, arguments: Values) -> Values:
    """Answer ``aws.get_availability_zones``: names and ids of the zones, sorted as the official provider sorts them."""
    chosen = _filters(arguments)
    if "state" in arguments:
        chosen.append({"Name": "state", "Values": [arguments["state"]]})
    zones = clients("ec2").describe_availability_zones(Filters=chosen)["AvailabilityZones"]
    zones.sort(key=lambda zone: zone["ZoneName"])
    return {
        **arguments,
        "id": clients.region,
        "groupNames": sorted({zone.get("GroupName", clients.region) for zone in zones}),
        "names": [zone["ZoneName"] for zone in zones],
        "zoneIds": [zone["ZoneId"] for zone in zones],
    }


def _instance_type_offerings(clients: Clients, arguments: Values) -> Values:
    """Answer ``aws.ec2.get_instance_type_offerings``: three parallel lists."""
    place = {"LocationType": arguments["locationType"]} if "locationType" in arguments else {}
    pages = clients("ec2").get_paginator("describe_instance_type_offerings").paginate(Filters=_filters(arguments), **place)
    found = [offering for page in pages for offering in page["InstanceTypeOfferings"]]
    return {
        **arguments,
        "id": clients.region,
        "instanceTypes": [offering["InstanceType"] for offering in found],
        "locations": [offering["Location"] for offering in found],
        "locationTypes": [offering["LocationType"] for offering in found],
    }


def _caller_identity(clients: Clients, _: Values) -> Values:
    """Answer ``aws.get_caller_identity``."""
    identity = clients("sts").get_caller_identity()
    return {
        "id": identity["Account"],
        "accountId": identity["Account"],
        "arn": identity["Arn"],
        "userId": identity["UserId"],
    }


def _partition(clients: Clients, _: Values) -> Values:
    """Answer ``aws.get_partition``."""
    suffix = dns_suffix(clients.partition)
    return {
        "id": clients.partition,
        "partition": clients.partition,
        "dnsSuffix": suffix,
        "reverseDnsPrefix": ".".join(reversed(suffix.split("."))),
    }


def _region(clients: Clients, _: Values) -> Values:
    """Answer ``aws.get_region``, which the official eks.Cluster calls. ``name`` is the older name of ``region``."""
    name = f"/aws/service/global-infrastructure/regions/{clients.region}/longName"
    return {
        "id": clients.region,
        "region": clients.region,
        "name": clients.region,
        "endpoint": f"ec2.{clients.region}.{dns_suffix(clients.partition)}",
        "description": clients("ssm").get_parameter(Name=name)["Parameter"]["Value"],
    }


def _roles(clients: Clients, arguments: Values) -> Values:
    """Answer ``aws.iam.get_roles``: names and ARNs of the roles below a path."""
    pages = clients("iam").get_paginator("list_roles").paginate(PathPrefix=arguments.get("pathPrefix", "/"))
    found = [role for page in pages for role in page["Roles"]]
    return {
        **arguments,
        "id": clients.region,
        "arns": [role["Arn"] for role in found],
        "names": [role["RoleName"] for role in found],
    }


def _role(clients: Clients, arguments: Values) -> Values:
    """Answer ``aws.iam.get_role``."""
    role = clients("iam").get_role(RoleName=arguments["name"])["Role"]
    return {
        "id": role["RoleName"],
        "name": role["RoleName"],
        "arn": role["Arn"],
        "assumeRolePolicy": json.dumps(role["AssumeRolePolicyDocument"]),
        "createDate": role["CreateDate"].isoformat(),
        "description": role.get("Description", ""),
        "maxSessionDuration": role["MaxSessionDuration"],
        "path": role["Path"],
        "permissionsBoundary": "",
        "roleLastUseds": [],
        "tags": tags.from_list(role.get("Tags")),
        "uniqueId": role["RoleId"],
    }


def _policy(clients: Clients, arguments: Values) -> Values:
    """Answer ``aws.iam.get_policy`` by ARN; if none exists, raise the official provider's error."""
    arn, iam = arguments["arn"], clients("iam")
    answer = or_none(iam.get_policy, PolicyArn=arn)
    if answer is None:
        raise HandlerError(f"reading IAM Policy ({arn}): couldn't find resource")
    policy = answer["Policy"]
    version = iam.get_policy_version(PolicyArn=arn, VersionId=policy["DefaultVersionId"])["PolicyVersion"]
    return {
        "id": arn,
        "arn": arn,
        "attachmentCount": policy["AttachmentCount"],
        "description": policy.get("Description", ""),
        "name": policy["PolicyName"],
        "path": policy["Path"],
        "policy": json.dumps(version["Document"]),
        "policyId": policy["PolicyId"],
        "tags": tags.from_list(policy.get("Tags")),
    }


_ZONES_OF_NETWORK_LOAD_BALANCERS = {
    "eu-west-1": "Z2IFOLAFXWLO4F",
    "us-east-1": "Z26RNL4JYFTOTI",
    "us-east-2": "ZLMOA37VPKANP",
    "us-west-2": "Z18D5FSROUN65G",
}
"""https://docs.aws.amazon.com/general/latest/gr/elb.html; for other regions the twin invents one."""


def _hosted_zone_id(clients: Clients, arguments: Values) -> Values:
    """Answer ``aws.lb.get_hosted_zone_id``, for network load balancers."""
    if arguments.get("loadBalancerType") != "network":
        raise HandlerError("getHostedZoneId: the twin knows the zones of network load balancers")
    zone = _ZONES_OF_NETWORK_LOAD_BALANCERS.get(clients.region, f"Z{clients.region.replace('-', '').upper()}")
    return {**arguments, "id": zone, "region": clients.region}


def _vpcs(clients: Clients, arguments: Values) -> Values:
    """Answer ``aws.ec2.get_vpcs``: the ids that match."""
    found = clients("ec2").describe_vpcs(Filters=_filters(arguments))["Vpcs"]
    return {**arguments, "id": clients.region, "ids": [vpc["VpcId"] for vpc in found]}


def _vpc(clients: Clients, arguments: Values) -> Values:
    """Answer ``aws.ec2.get_vpc`` by id."""
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
        "tags": tags.from_list(vpc.get("Tags")),
    }


def _subnets(clients: Clients, arguments: Values) -> Values:
    """Answer ``aws.ec2.get_subnets``: the ids that match."""
    found = clients("ec2").describe_subnets(Filters=_filters(arguments))["Subnets"]
    return {**arguments, "id": clients.region, "ids": [subnet["SubnetId"] for subnet in found]}


def _subnet(clients: Clients, arguments: Values) -> Values:
    """Answer ``aws.ec2.get_subnet`` by id."""
    subnet = clients("ec2").describe_subnets(SubnetIds=[arguments["id"]])["Subnets"][0]
    return {
        **arguments,
        "availabilityZone": subnet["AvailabilityZone"],
        "availableIpAddressCount": subnet["AvailableIpAddressCount"],
        "cidrBlock": subnet["CidrBlock"],
        "tags": tags.from_list(subnet.get("Tags")),
        "vpcId": subnet["VpcId"],
    }


def _route_tables(clients: Clients, arguments: Values) -> Values:
    """Answer ``aws.ec2.get_route_tables``: the ids of a VPC's route tables."""
    of_it = [{"Name": "vpc-id", "Values": [arguments["vpcId"]]}]
    found = clients("ec2").describe_route_tables(Filters=of_it)["RouteTables"]
    return {**arguments, "id": clients.region, "ids": [table["RouteTableId"] for table in found]}


def _route_table(clients: Clients, arguments: Values) -> Values:
    """Answer ``aws.ec2.get_route_table`` by id. Absent targets of a route are empty strings, as in the provider."""
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


def _vpc_endpoint(clients: Clients, arguments: Values) -> Values:
    """Answer ``aws.ec2.get_vpc_endpoint``; without exactly one, raise the provider's error."""
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


def _clusters(clients: Clients, _: Values) -> Values:
    """Answer ``aws.eks.get_clusters``: all names."""
    return {"id": clients.region, "names": clients("eks").list_clusters()["clusters"]}


def _cluster(clients: Clients, arguments: Values) -> Values:
    """Answer ``aws.eks.get_cluster``, with the twin's own record for values that moto drops."""
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


def _open_id_connect_provider(clients: Clients, arguments: Values) -> Values:
    """Answer ``aws.iam.get_open_id_connect_provider`` by ARN. IAM raises NoSuchEntity without one."""
    found = clients("iam").get_open_id_connect_provider(OpenIDConnectProviderArn=arguments["arn"])
    return {**arguments, "id": arguments["arn"], "url": found["Url"], "clientIdLists": found["ClientIDList"]}


def _filters(arguments: Values) -> list[dict[str, object]]:
    """Convert the filters to EC2's form."""
    return [{"Name": item["name"], "Values": item["values"]} for item in arguments.get("filters") or ()]


_FUNCTIONS: dict[str, tuple[Invoke, AbstractSet[str]]] = {
    "aws:ec2/getInstanceTypeOfferings:getInstanceTypeOfferings": (_instance_type_offerings, {"locationType", "filters"}),
    "aws:ec2/getRouteTable:getRouteTable": (_route_table, {"routeTableId"}),
    "aws:ec2/getRouteTables:getRouteTables": (_route_tables, {"vpcId"}),
    "aws:ec2/getSubnet:getSubnet": (_subnet, {"id"}),
    "aws:ec2/getSubnets:getSubnets": (_subnets, {"filters"}),
    "aws:ec2/getVpc:getVpc": (_vpc, {"id"}),
    "aws:ec2/getVpcEndpoint:getVpcEndpoint": (_vpc_endpoint, {"vpcId", "serviceName"}),
    "aws:ec2/getVpcs:getVpcs": (_vpcs, {"filters"}),
    "aws:eks/getCluster:getCluster": (_cluster, {"name"}),
    "aws:eks/getClusters:getClusters": (_clusters, frozenset()),
    "aws:iam/getOpenIdConnectProvider:getOpenIdConnectProvider": (_open_id_connect_provider, {"arn"}),
    "aws:iam/getPolicy:getPolicy": (_policy, {"arn"}),
    "aws:iam/getRole:getRole": (_role, {"name"}),
    "aws:iam/getRoles:getRoles": (_roles, {"pathPrefix"}),
    "aws:index/getAvailabilityZones:getAvailabilityZones": (_availability_zones, {"state", "filters"}),
    "aws:index/getCallerIdentity:getCallerIdentity": (_caller_identity, frozenset()),
    "aws:index/getPartition:getPartition": (_partition, frozenset()),
    "aws:index/getRegion:getRegion": (_region, frozenset()),
    "aws:lb/getHostedZoneId:getHostedZoneId": (_hosted_zone_id, {"loadBalancerType"}),
}
"""Functions, with their supported arguments."""


def _strict(token: str) -> Invoke:
    function, arguments = _FUNCTIONS[token]

    def invoke(clients: Clients, values: Values) -> Values:
        """Answer a call. Raises InvalidInputs for unsupported arguments."""
        unknown = sorted(values.keys() - arguments)
        if unknown:
            reason = "the twin does not implement this argument: extend twin/aws/invokes.py"
            raise InvalidInputs(token, [Problem(key, reason) for key in unknown])
        return function(clients, values)

    return invoke


INVOKES: dict[str, Invoke] = {token: _strict(token) for token in _FUNCTIONS}
