"""Find load balancers, network resources and the VPC."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from botocore.exceptions import ClientError

from stackctl.account.read_only import error_code
from stackctl.cost.prices import HOURS
from stackctl.orphans.search import Item, Leftover, Search, name_of

_TAGS_AT_A_TIME = 20
"""Maximum number of ARNs in one DescribeTags call for load balancers."""
_LIVING_NAT = [{"Name": "state", "Values": ["pending", "available", "deleting", "failed"]}]
_GONE = ("LoadBalancerNotFound", "TargetGroupNotFound")
_GONE_ENDPOINT = ("deleted", "deleting")


def load_balancers(search: Search) -> Iterator[Leftover]:
    """Yield load balancers of any creator."""
    items = search.pages("elbv2", "describe_load_balancers", "LoadBalancers")
    for item, reason in search.own(_with_tags(search, items, "LoadBalancerArn")):
        arn = item["LoadBalancerArn"]
        yield Leftover(
            "load balancer",
            arn.rpartition("loadbalancer/")[2],
            item["LoadBalancerName"],
            reason,
            search.usd_a_month("nlb.hour", HOURS),
            search.remove(f"elbv2 delete-load-balancer --load-balancer-arn {arn}"),
        )


def target_groups(search: Search) -> Iterator[Leftover]:
    """Yield target groups."""
    items = search.pages("elbv2", "describe_target_groups", "TargetGroups")
    for item, reason in search.own(_with_tags(search, items, "TargetGroupArn")):
        arn = item["TargetGroupArn"]
        yield Leftover(
            "target group",
            arn.rpartition("targetgroup/")[2],
            item["TargetGroupName"],
            reason,
            0,
            search.remove(f"elbv2 delete-target-group --target-group-arn {arn}"),
        )


def interfaces(search: Search) -> Iterator[Leftover]:
    """Yield network interfaces, also untagged ones that EKS and others create.

    An interface in use is deleted with its user.
    """
    for item, reason in search.in_the_way(search.pages("ec2", "describe_network_interfaces", "NetworkInterfaces"), "TagSet"):
        yield Leftover(
            "network interface",
            item["NetworkInterfaceId"],
            f"{item['Status']} {item.get('Description', '')}".strip(),
            reason,
            0,
            search.remove(f"ec2 delete-network-interface --network-interface-id {item['NetworkInterfaceId']}", reason),
        )


def security_groups(search: Search) -> Iterator[Leftover]:
    """Yield security groups, except the VPC's default group, which is deleted with the VPC."""
    for item, reason in search.in_the_way(search.pages("ec2", "describe_security_groups", "SecurityGroups")):
        if item["GroupName"] == "default":
            continue
        yield Leftover(
            "security group",
            item["GroupId"],
            item["GroupName"],
            reason,
            0,
            search.remove(f"ec2 delete-security-group --group-id {item['GroupId']}", reason),
        )


def addresses(search: Search) -> Iterator[Leftover]:
    """Yield elastic IP addresses. AWS bills unattached ones too."""
    for item, reason in search.own(iter(search.readers("ec2").describe_addresses()["Addresses"])):
        yield Leftover(
            "elastic IP",
            item["AllocationId"],
            f"{item['PublicIp']} {name_of(item)}".strip(),
            reason,
            search.usd_a_month("public-ipv4.hour", HOURS),
            search.remove(f"ec2 release-address --allocation-id {item['AllocationId']}"),
        )


def nat_gateways(search: Search) -> Iterator[Leftover]:
    """Yield NAT gateways that are not deleted. AWS lists deleted ones for another hour."""
    for item, reason in search.own(search.pages("ec2", "describe_nat_gateways", "NatGateways", Filters=_LIVING_NAT)):
        yield Leftover(
            "NAT gateway",
            item["NatGatewayId"],
            name_of(item),
            reason,
            search.usd_a_month("nat.hour", HOURS),
            search.remove(f"ec2 delete-nat-gateway --nat-gateway-id {item['NatGatewayId']}"),
        )


def endpoints(search: Search) -> Iterator[Leftover]:
    """Yield VPC endpoints of any creator.

    An interface endpoint costs money in each zone; a gateway endpoint is free.
    """
    for item, reason in search.in_the_way(search.pages("ec2", "describe_vpc_endpoints", "VpcEndpoints")):
        if str(item["State"]).lower() in _GONE_ENDPOINT:
            continue
        zones = len(item.get("SubnetIds") or ()) if item.get("VpcEndpointType") == "Interface" else 0
        yield Leftover(
            "VPC endpoint",
            item["VpcEndpointId"],
            item["ServiceName"],
            reason,
            search.usd_a_month("endpoint.hour", HOURS * zones),
            search.remove(f"ec2 delete-vpc-endpoints --vpc-endpoint-ids {item['VpcEndpointId']}", reason),
        )


def vpcs(search: Search) -> Iterator[Leftover]:
    """Yield the VPC. It is free, but blocks the next `up`."""
    for vpc, reason in search.vpcs.items():
        yield Leftover("VPC", vpc, search.owner.cluster_name, reason, 0, search.remove(f"ec2 delete-vpc --vpc-id {vpc}"))


def _with_tags(search: Search, items: Iterator[Item], key: str) -> Iterator[Item]:
    """Yield each item with its tags. The API returns tags only by ARN, for at most twenty ARNs."""
    while batch := list(islice(items, _TAGS_AT_A_TIME)):
        tags = _tags_by_arn(search, [item[key] for item in batch])
        yield from ({**item, "Tags": tags[item[key]]} for item in batch if item[key] in tags)


def _tags_by_arn(search: Search, arns: Sequence[str]) -> dict[str, list[dict[str, str]]]:
    """Return the tags of the ARNs that still exist.

    The call fails for all ARNs if one was deleted after the listing.
    """
    try:
        described = search.readers("elbv2").describe_tags(ResourceArns=arns)["TagDescriptions"]
    except ClientError as error:
        if error_code(error) not in _GONE:
            raise
        if len(arns) == 1:
            return {}
        return {arn: tags for one in arns for arn, tags in _tags_by_arn(search, [one]).items()}
    return {known["ResourceArn"]: known["Tags"] for known in described}
