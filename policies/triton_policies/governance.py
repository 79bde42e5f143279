"""Rules about ownership and cost."""

from __future__ import annotations

from collections.abc import Iterator

from triton_policies.cluster import CLUSTER
from triton_policies.encryption import KEY
from triton_policies.findings import Finding, Violation, attempt
from triton_policies.network import VPC
from triton_policies.nodes import NODE_CLASS, TEMPLATE
from triton_policies.policy import Policy, ResourcePolicy, Settings, StackPolicy, strings, switch
from triton_policies.reading import Property
from triton_policies.resources import Resource, Stack

BUDGET = "aws:budgets/budget:Budget"
TAGGABLE = (
    "aws:cloudwatch/eventRule:EventRule",
    "aws:cloudwatch/logGroup:LogGroup",
    "aws:cloudwatch/metricAlarm:MetricAlarm",
    "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup",
    "aws:ec2/eip:Eip",
    "aws:ec2/flowLog:FlowLog",
    "aws:ec2/internetGateway:InternetGateway",
    "aws:ec2/launchTemplate:LaunchTemplate",
    "aws:ec2/natGateway:NatGateway",
    "aws:ec2/placementGroup:PlacementGroup",
    "aws:ec2/routeTable:RouteTable",
    "aws:ec2/securityGroup:SecurityGroup",
    "aws:ec2/subnet:Subnet",
    "aws:ec2/vpc:Vpc",
    "aws:ec2/vpcEndpoint:VpcEndpoint",
    "aws:ecr/repository:Repository",
    "aws:eks/addon:Addon",
    "aws:eks/cluster:Cluster",
    "aws:eks/nodeGroup:NodeGroup",
    "aws:fsx/lustreFileSystem:LustreFileSystem",
    "aws:iam/instanceProfile:InstanceProfile",
    "aws:iam/role:Role",
    "aws:kms/key:Key",
    "aws:s3/bucket:Bucket",
    "aws:sns/topic:Topic",
    "aws:sqs/queue:Queue",
)
"""AWS resources that are billed or found by tag."""
_LAUNCHED = ("instance", "volume")


def _tags(resource: Resource, settings: Settings) -> Iterator[Finding]:
    if resource.type == NODE_CLASS:
        yield from attempt(lambda: _missing(resource["spec.tags"], resource, settings))
        return
    yield from attempt(lambda: _missing(resource["tags"], resource, settings))
    if resource.type == TEMPLATE:
        specifications = resource["tagSpecifications"].elements
        for kind in _LAUNCHED:
            at = next((one for one in specifications if one["resourceType"].value == kind), None)
            if at is None:
                yield Violation("tagSpecifications", f"has no {kind}: each {kind} that it launches is nobody's")
            else:
                yield from _missing(at["tags"], resource, settings)


def _missing(tags: Property, resource: Resource, settings: Settings) -> Iterator[Finding]:
    have = tags.entries
    missing = [key for key in settings["tags"] if key not in have]
    if missing:
        yield Violation(tags.path, f"has no {', '.join(missing)}: nobody can be asked about it, and no budget counts it")
    environment = tags["environment"]
    if environment.given and environment.value != resource.stack:
        yield Violation(
            environment.path,
            f"is {environment.value}, and the stack is {resource.stack}",
            fix=f"set it to {resource.stack}",
        )


def _lasting(resource: Resource, settings: Settings) -> Iterator[Finding]:
    if settings["required"] and not resource.protected:
        yield Violation("", "is not protected: one change that replaces it, and what is in it is gone")


def _budget(stack: Stack, settings: Settings) -> Iterator[Finding]:
    if settings["required"] and not list(stack.of(BUDGET)):
        yield Violation("", "the stack has no budget: the first that anyone hears of a runaway is the invoice")


POLICIES: tuple[Policy, ...] = (
    ResourcePolicy(
        id="tags-required",
        says="Whatever is billed says whose it is, what for, and in which environment.",
        severity="low",
        controls=("FSBP EKS.6",),
        fix="set tags project, environment, owner and cost-center",
        settings={"tags": strings("tags that everything has to have", ["project", "environment", "owner", "cost-center"])},
        types=(*TAGGABLE, NODE_CLASS),
        judge=_tags,
    ),
    ResourcePolicy(
        id="lasting-protected",
        says="What cannot be made again (cluster, network, keys) is neither deleted nor replaced by a slip.",
        severity="high",
        controls=("FSBP KMS.3",),
        fix="give it protect=True",
        settings={"required": switch("whether they have to be protected", True, local=False)},
        types=(CLUSTER, VPC, KEY),
        judge=_lasting,
    ),
    StackPolicy(
        id="budget-present",
        says="Somebody is told when a stack costs more than was planned.",
        severity="low",
        controls=(),
        level="advisory",
        fix="make an aws.budgets.Budget with a subscriber",
        settings={"required": switch("whether a budget is asked for", True, local=False, dev=False, staging=False)},
        judge=_budget,
    ),
)
