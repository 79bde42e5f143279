"""Rules about the VPC: its ingress, egress and logs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from triton_policies.findings import Finding, Violation, attempt, each, is_true, require
from triton_policies.networks import is_world
from triton_policies.policy import Policy, ResourcePolicy, Settings, StackPolicy, strings, switch
from triton_policies.reading import Property
from triton_policies.resources import Resource, Stack

VPC = "aws:ec2/vpc:Vpc"
SUBNET = "aws:ec2/subnet:Subnet"
FLOW_LOG = "aws:ec2/flowLog:FlowLog"
ENDPOINT = "aws:ec2/vpcEndpoint:VpcEndpoint"
NAT = "aws:ec2/natGateway:NatGateway"
GROUP = "aws:ec2/securityGroup:SecurityGroup"
DEFAULT_GROUP = "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup"
RULE = "aws:ec2/securityGroupRule:SecurityGroupRule"
INGRESS_RULE = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"

PUBLIC_TAG = "public-load-balancer"
"""The tag of security groups that may be open to the internet on port 443. Its value is `true`."""


def _flow_logs(stack: Stack, settings: Settings) -> Iterator[Finding]:
    logs = list(stack.of(FLOW_LOG))
    for vpc in stack.of(VPC):

        def check(vpc: Resource = vpc) -> Iterator[Finding]:
            if not stack.any_names(logs, "vpcId", vpc):
                yield Violation("", "has no flow log: who talked to whom cannot be found out afterwards", vpc)

        yield from attempt(check, vpc)
        for log in logs:
            yield from attempt(partial(_all_traffic, stack, log, vpc), log)


def _all_traffic(stack: Stack, log: Resource, vpc: Resource) -> Iterator[Finding]:
    if not stack.names(log, "vpcId", vpc):
        return
    traffic = log["trafficType"]
    if traffic.known and traffic.value != "ALL":
        yield Violation(traffic.path, f"is {traffic.value}: the rest of the traffic is not logged", log, fix="set it to ALL")


def _endpoints(stack: Stack, settings: Settings) -> Iterator[Finding]:
    there = {
        str(one["serviceName"].value).removeprefix("cn.").split(".", maxsplit=3)[-1]
        for one in stack.of(ENDPOINT)
        if one["serviceName"].known and one["serviceName"].given
    }
    for vpc in stack.of(VPC):
        for service in settings["services"]:
            if service not in there:
                yield Violation("", f"has no endpoint for {service}: that traffic goes through the internet", vpc)


def _ingress(resource: Resource, settings: Settings) -> Iterator[Finding]:
    public = resource["tags"][PUBLIC_TAG].value == "true"
    if resource.type == INGRESS_RULE:
        yield from _rule(resource.properties, ("cidrIpv4", "cidrIpv6"), public)
    elif resource.type == RULE:
        if resource["type"].value == "ingress":
            yield from _rule(resource.properties, ("cidrBlocks", "ipv6CidrBlocks"), public)
    else:
        yield from each(resource["ingress"].elements, lambda rule: _rule(rule, ("cidrBlocks", "ipv6CidrBlocks"), public))


def _rule(rule: Property, keys: tuple[str, str], public: bool) -> Iterator[Finding]:
    for key in keys:
        at = rule[key]
        if not at.given:
            continue
        values = at.elements or [at]

        def check(one: Property) -> Iterator[Finding]:
            if not is_world(one.value):
                return
            ports = (rule["fromPort"].value, rule["toPort"].value)
            if not (public and ports == (443, 443)):
                yield Violation(one.path, f"is {one.value}: anyone on the internet may come in by {_ports(*ports)}")

        yield from each(values, check)


def _ports(first: object, last: object) -> str:
    if first is None or first in (0, -1):
        return "every port"
    return f"port {first}" if first == last else f"ports {first}-{last}"


def _default_group(stack: Stack, settings: Settings) -> Iterator[Finding]:
    groups = list(stack.of(DEFAULT_GROUP))

    def check(vpc: Resource) -> Iterator[Finding]:
        if not stack.any_names(groups, "vpcId", vpc):
            yield Violation("", "leaves its default security group as AWS makes it: what names no group is in it", vpc)

    yield from each(stack.of(VPC), check)
    for group in groups:
        for key in ("ingress", "egress"):
            yield from attempt(lambda group=group, key=key: _no_rules(group, key), group)  # type: ignore[misc]


def _no_rules(group: Resource, key: str) -> Iterator[Finding]:
    if group[key].elements:
        yield Violation(
            key, "has rules: what forgets to name its group is open instead of cut off", group, fix="leave it out"
        )


def _nat(stack: Stack, settings: Settings) -> Iterator[Finding]:
    if not settings["perZone"]:
        return
    gateways = len(list(stack.of(NAT)))
    zones = {
        subnet["availabilityZone"].value
        for subnet in stack.of(SUBNET)
        if subnet["availabilityZone"].known and "kubernetes.io/role/internal-elb" in subnet["tags"].entries
    }
    if 0 < gateways < len(zones):
        for vpc in stack.of(VPC):
            yield Violation(
                "", f"has {gateways} NAT gateways for {len(zones)} zones: one zone down takes the others' way out along", vpc
            )


def _subnet(subnet: Resource, settings: Settings) -> Iterator[Finding]:
    yield from require(
        subnet["mapPublicIpOnLaunch"], lambda value: not is_true(value), "is {value}: what starts here is on the internet"
    )


def _region(resource: Resource, settings: Settings) -> Iterator[Finding]:
    allowed = settings["regions"] or [resource.region or "those that nobody has named"]
    for key in ("region", "availabilityZone"):
        at = resource[key]

        def check(at: Property = at) -> Iterator[Finding]:
            where = at.value
            if where is not None and not any(str(where).startswith(region) for region in allowed):
                yield Violation(at.path, f"is {where}, outside of {', '.join(allowed)}: customers' data may not go there")

        yield from attempt(check)


POLICIES: tuple[Policy, ...] = (
    StackPolicy(
        id="vpc-flow-logs",
        says="All traffic of every VPC is logged.",
        severity="medium",
        controls=("FSBP EC2.6",),
        fix="make an aws.ec2.FlowLog for it with trafficType ALL",
        judge=_flow_logs,
    ),
    StackPolicy(
        id="vpc-endpoints-present",
        says="Nodes reach the AWS services that every pod start needs without the internet.",
        severity="medium",
        level="advisory",
        controls=("FSBP EC2.10",),
        fix="make the endpoint: of type Gateway for s3, Interface for the others",
        settings={"services": strings("services that need an endpoint", ["s3", "ecr.api", "ecr.dkr", "sts"])},
        judge=_endpoints,
    ),
    ResourcePolicy(
        id="sg-no-world-ingress",
        says="No security group lets the internet in, but for port 443 of a load balancer that is tagged as public.",
        severity="critical",
        controls=("FSBP EC2.18", "FSBP EC2.19", "FSBP EC2.53"),
        fix=f"name the networks that may; for a public load balancer, port 443 alone and the tag {PUBLIC_TAG}=true",
        types=(GROUP, RULE, INGRESS_RULE),
        judge=_ingress,
    ),
    StackPolicy(
        id="sg-default-locked",
        says="The default security group of every VPC has no rules.",
        severity="high",
        controls=("FSBP EC2.2",),
        fix="make an aws.ec2.DefaultSecurityGroup for the VPC without ingress and egress",
        judge=_default_group,
    ),
    StackPolicy(
        id="nat-ha-in-prod",
        says="Where there are NAT gateways in production, every zone has its own.",
        severity="medium",
        controls=(),
        level="advisory",
        fix="make one NAT gateway per zone",
        settings={"perZone": switch("whether each zone needs its own", True, local=False, dev=False, staging=False)},
        judge=_nat,
    ),
    ResourcePolicy(
        id="subnet-no-public-address",
        says="No subnet gives what starts in it an address on the internet.",
        severity="medium",
        controls=("FSBP EC2.15",),
        fix="set mapPublicIpOnLaunch to false",
        types=(SUBNET,),
        judge=_subnet,
    ),
    ResourcePolicy(
        id="region-allowed",
        says="Everything is in the regions that data may be in: those that are set, else the stack's own.",
        severity="high",
        controls=(),
        fix="use an allowed region, or put this one into `regions` of this policy",
        settings={"regions": strings("AWS regions that may be used; none: the stack's own (`aws:region`)", [])},
        types=(
            "pulumi:providers:aws",
            SUBNET,
            VPC,
            "aws:s3/bucket:Bucket",
            "aws:eks/cluster:Cluster",
            "aws:sqs/queue:Queue",
        ),
        judge=_region,
    ),
)
