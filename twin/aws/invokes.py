"""The functions (data sources) that the program calls."""

from __future__ import annotations

import json
from collections.abc import Collection

from spec.names import dns_suffix
from twin.aws.base import tags
from twin.aws.base.clients import Clients
from twin.aws.base.errors import HandlerError, InvalidInputs, Problem
from twin.aws.base.handler import Invoke, Values
from twin.aws.base.lookup import or_none


def get_availability_zones(clients: Clients, arguments: Values) -> Values:
    """Answer ``aws.get_availability_zones``: names and ids of the zones, sorted as the official provider sorts them."""
    only("aws:index/getAvailabilityZones:getAvailabilityZones", arguments, {"state", "filters"})
    chosen = filters(arguments)
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


def get_instance_type_offerings(clients: Clients, arguments: Values) -> Values:
    """Answer ``aws.ec2.get_instance_type_offerings``: three parallel lists."""
    token = "aws:ec2/getInstanceTypeOfferings:getInstanceTypeOfferings"
    only(token, arguments, {"locationType", "filters"})
    place = {"LocationType": arguments["locationType"]} if "locationType" in arguments else {}
    pages = clients("ec2").get_paginator("describe_instance_type_offerings").paginate(Filters=filters(arguments), **place)
    found = [offering for page in pages for offering in page["InstanceTypeOfferings"]]
    return {
        **arguments,
        "id": clients.region,
        "instanceTypes": [offering["InstanceType"] for offering in found],
        "locations": [offering["Location"] for offering in found],
        "locationTypes": [offering["LocationType"] for offering in found],
    }


def get_caller_identity(clients: Clients, arguments: Values) -> Values:
    """Answer ``aws.get_caller_identity``."""
    only("aws:index/getCallerIdentity:getCallerIdentity", arguments, ())
    identity = clients("sts").get_caller_identity()
    return {
        "id": identity["Account"],
        "accountId": identity["Account"],
        "arn": identity["Arn"],
        "userId": identity["UserId"],
    }


def get_partition(clients: Clients, arguments: Values) -> Values:
    """Answer ``aws.get_partition``."""
    only("aws:index/getPartition:getPartition", arguments, ())
    suffix = dns_suffix(clients.partition)
    return {
        "id": clients.partition,
        "partition": clients.partition,
        "dnsSuffix": suffix,
        "reverseDnsPrefix": ".".join(reversed(suffix.split("."))),
    }


def get_region(clients: Clients, arguments: Values) -> Values:
    """Answer ``aws.get_region``, which the official eks.Cluster calls. ``name`` is the older name of ``region``."""
    only("aws:index/getRegion:getRegion", arguments, ())
    name = f"/aws/service/global-infrastructure/regions/{clients.region}/longName"
    return {
        "id": clients.region,
        "region": clients.region,
        "name": clients.region,
        "endpoint": f"ec2.{clients.region}.{dns_suffix(clients.partition)}",
        "description": clients("ssm").get_parameter(Name=name)["Parameter"]["Value"],
    }


def get_roles(clients: Clients, arguments: Values) -> Values:
    """Answer ``aws.iam.get_roles``: names and ARNs of the roles below a path."""
    only("aws:iam/getRoles:getRoles", arguments, {"pathPrefix"})
    pages = clients("iam").get_paginator("list_roles").paginate(PathPrefix=arguments.get("pathPrefix", "/"))
    found = [role for page in pages for role in page["Roles"]]
    return {
        **arguments,
        "id": clients.region,
        "arns": [role["Arn"] for role in found],
        "names": [role["RoleName"] for role in found],
    }


def get_role(clients: Clients, arguments: Values) -> Values:
    """Answer ``aws.iam.get_role``."""
    only("aws:iam/getRole:getRole", arguments, {"name"})
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


def get_policy(clients: Clients, arguments: Values) -> Values:
    """Answer ``aws.iam.get_policy`` by ARN; where there is none, with the official provider's words."""
    only("aws:iam/getPolicy:getPolicy", arguments, {"arn"})
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
"""https://docs.aws.amazon.com/general/latest/gr/elb.html; of other regions the twin makes one up."""


def get_hosted_zone_id(clients: Clients, arguments: Values) -> Values:
    """Answer ``aws.lb.get_hosted_zone_id``, for network load balancers."""
    only("aws:lb/getHostedZoneId:getHostedZoneId", arguments, {"loadBalancerType"})
    if arguments.get("loadBalancerType") != "network":
        raise HandlerError("getHostedZoneId: the twin knows the zones of network load balancers")
    zone = _ZONES_OF_NETWORK_LOAD_BALANCERS.get(clients.region, f"Z{clients.region.replace('-', '').upper()}")
    return {**arguments, "id": zone, "region": clients.region}


INVOKES: dict[str, Invoke] = {
    "aws:lb/getHostedZoneId:getHostedZoneId": get_hosted_zone_id,
    "aws:index/getAvailabilityZones:getAvailabilityZones": get_availability_zones,
    "aws:ec2/getInstanceTypeOfferings:getInstanceTypeOfferings": get_instance_type_offerings,
    "aws:index/getCallerIdentity:getCallerIdentity": get_caller_identity,
    "aws:index/getPartition:getPartition": get_partition,
    "aws:index/getRegion:getRegion": get_region,
    "aws:iam/getPolicy:getPolicy": get_policy,
    "aws:iam/getRole:getRole": get_role,
    "aws:iam/getRoles:getRoles": get_roles,
}


def only(token: str, arguments: Values, known: Collection[str]) -> None:
    """Refuse arguments that a function of the twin does not look at. Raises InvalidInputs."""
    problems = [
        Problem(key, "the twin does not implement this argument: extend twin/aws/invokes.py")
        for key in sorted(arguments.keys() - set(known))
    ]
    if problems:
        raise InvalidInputs(token, problems)


def filters(arguments: Values) -> list[dict[str, object]]:
    """Return the filters as EC2 takes them."""
    return [{"Name": item["name"], "Values": item["values"]} for item in arguments.get("filters") or ()]
