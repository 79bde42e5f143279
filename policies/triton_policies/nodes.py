"""Rules about node groups, launch templates and Karpenter's pools: access to nodes, their disks and their images."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from triton_policies.findings import Finding, Violation, attempt, each, is_true, require
from triton_policies.policy import Policy, ResourcePolicy, Settings, StackPolicy, number
from triton_policies.reading import Property
from triton_policies.resources import Resource, Stack

NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
NODE_POOL = "kubernetes:karpenter.sh/v1:NodePool"
NODE_CLASS = "kubernetes:karpenter.k8s.aws/v1:EC2NodeClass"
STORAGE_CLASS = "kubernetes:storage.k8s.io/v1:StorageClass"

GPU_KEY = "nvidia.com/gpu"
_EBS_DRIVER = "ebs.csi.aws.com"


def _ssh(resource: Resource, settings: Settings) -> Iterator[Finding]:
    at = resource["remoteAccess" if resource.type == NODE_GROUP else "keyName"]
    if at.given:
        yield Violation(at.path, "is set: whoever has the key gets on every node, and nothing logs it")


def _metadata(resource: Resource, settings: Settings) -> Iterator[Finding]:
    if resource.type == NODE_GROUP:
        yield from _own_template(resource, "pods reach the node's credentials")
        return
    options = resource["metadataOptions" if resource.type == TEMPLATE else "spec.metadataOptions"]
    yield from require(
        options["httpTokens"],
        lambda value: value == "required",
        "is {value}: a request forged by a pod reads the node's credentials (IMDSv1)",
        fix="set it to required",
    )
    most = settings["maxHops"]
    yield from require(
        options["httpPutResponseHopLimit"],
        lambda hops: isinstance(hops, int) and 1 <= hops <= most,
        f"is {{value}}; more than {most} lets pods reach the node's credentials",
        fix=f"set it to {most}",
    )


def _own_template(group: Resource, problem: str) -> Iterator[Finding]:
    at = group["launchTemplate"]
    if not at.given:
        yield Violation(at.path, f"is not set: EKS takes its own, and {problem}", fix="give the group a launch template")


def _volumes(resource: Resource, settings: Settings) -> Iterator[Finding]:
    if resource.type == STORAGE_CLASS:
        if resource["provisioner"].value == _EBS_DRIVER:
            yield from require(
                resource["parameters.encrypted"],
                is_true,
                "is {value}: volumes of pods are not encrypted",
                fix='set it to "true"',
            )
        return
    if resource.type == NODE_GROUP:
        yield from _own_template(resource, "the nodes' disks are not encrypted")
        return
    mappings = resource["blockDeviceMappings" if resource.type == TEMPLATE else "spec.blockDeviceMappings"]
    if not mappings.elements:
        yield Violation(mappings.path, "is not set: the AMI decides, and its volume is not encrypted")
    yield from each(mappings.elements, _volume)


def _volume(mapping: Property) -> Iterator[Finding]:
    ebs = mapping["ebs"]
    yield from require(ebs["encrypted"], is_true, "is {value}: the node's disk is not encrypted")
    yield from require(ebs["volumeType"], lambda kind: kind == "gp3", "is {value}: gp3 is faster and cheaper")
    yield from require(ebs["deleteOnTermination"], is_true, "is {value}: disks of nodes that are gone are billed for ever")


def _public_address(resource: Resource, settings: Settings) -> Iterator[Finding]:
    interfaces = [resource["spec"]] if resource.type == NODE_CLASS else resource["networkInterfaces"].elements
    for interface in interfaces:
        yield from require(
            interface["associatePublicIpAddress" if resource.type == TEMPLATE else "associatePublicIPAddress"],
            lambda value: not is_true(value),
            "is {value}: nodes have addresses on the internet",
        )


def _release(resource: Resource, settings: Settings) -> Iterator[Finding]:
    if resource.type == NODE_GROUP:
        release = resource["releaseVersion"]
        if resource["amiType"].value != "CUSTOM" and not release.given:
            yield Violation(release.path, "is not set: each new node may run another image", fix="set releaseVersion")
        return
    yield from each(resource["spec.amiSelectorTerms"].elements, _ami_term)


def _ami_term(term: Property) -> Iterator[Finding]:
    fix = "name the release, e.g. al2023@v20260728"
    if term["alias"].given:
        yield from require(
            term["alias"],
            lambda value: not str(value).endswith("@latest"),
            "is {value}: nodes change their image the day AWS publishes one",
            fix=fix,
        )
    elif not term["id"].given:
        yield Violation(term.path, "has neither alias nor id: nodes take the newest image that matches", fix=fix)


def _pool_limits(pool: Resource, settings: Settings) -> Iterator[Finding]:
    limits = pool["spec.limits"]
    if not limits.entries:
        yield Violation(limits.path, "is not set: pending pods may start nodes without end", fix=f"set {GPU_KEY} or cpu")
    if not pool["spec.disruption.budgets"].elements:
        yield Violation(
            "spec.disruption.budgets",
            "is not set: a tenth of all nodes may be replaced at a time",
            fix="set it, e.g. nodes: 1",
        )


def _private_subnets(stack: Stack, settings: Settings) -> Iterator[Finding]:
    for user, key in (
        *((group, "subnetIds") for group in stack.of(NODE_GROUP)),
        *((node_class, "spec") for node_class in stack.of(NODE_CLASS)),
    ):
        for subnet in stack.of("aws:ec2/subnet:Subnet"):
            yield from attempt(partial(_public_ways, stack, user, key, subnet), user)


def _public_ways(stack: Stack, user: Resource, key: str, subnet: Resource) -> Iterator[Finding]:
    if not _uses(stack, user, key, subnet):
        return
    for route in _ways_to_the_internet(stack, subnet):
        yield Violation(
            key if key == "subnetIds" else "spec.subnetSelectorTerms",
            f"has {subnet.name}, whose route {route.name} leads to an internet gateway: nodes are on the internet",
            user,
        )


def _uses(stack: Stack, user: Resource, key: str, subnet: Resource) -> bool:
    if stack.names(user, key, subnet):
        return True
    id = subnet["id"]
    terms = user["spec.subnetSelectorTerms"] if key == "spec" and user.known else None
    return (
        terms is not None
        and terms.known
        and id.known
        and id.value in [term["id"].value for term in terms.elements if term["id"].known and term["id"].given]
    )


def _ways_to_the_internet(stack: Stack, subnet: Resource) -> Iterator[Resource]:
    associations = [
        one
        for one in stack.of("aws:ec2/routeTableAssociation:RouteTableAssociation")
        if stack.names(one, "subnetId", subnet)
    ]
    tables = [
        table for table in stack.of("aws:ec2/routeTable:RouteTable") if stack.any_names(associations, "routeTableId", table)
    ]
    gateways = list(stack.of("aws:ec2/internetGateway:InternetGateway"))
    for route in stack.of("aws:ec2/route:Route"):
        in_table = any(stack.names(route, "routeTableId", table) for table in tables)
        if in_table and any(stack.names(route, "gatewayId", gateway) for gateway in gateways):
            yield route


POLICIES: tuple[Policy, ...] = (
    StackPolicy(
        id="ng-private-subnets",
        says="Nodes are in subnets without a way in from the internet.",
        severity="high",
        controls=("CIS EKS 5.4.3",),
        fix="give node groups private subnets, whose default route is a NAT gateway or nothing",
        judge=_private_subnets,
    ),
    ResourcePolicy(
        id="ng-no-ssh",
        says="Nobody logs in to nodes with SSH keys; Session Manager does it with IAM and a log.",
        severity="high",
        controls=("FSBP EC2.13",),
        fix="leave it out, and use `aws ssm start-session`",
        types=(NODE_GROUP, TEMPLATE),
        judge=_ssh,
    ),
    ResourcePolicy(
        id="lt-imdsv2",
        says="The instance metadata service wants a session token, and does not answer pods.",
        severity="critical",
        controls=("FSBP EC2.8", "FSBP EC2.170"),
        fix="set metadataOptions: httpTokens required, httpPutResponseHopLimit 1",
        settings={"maxHops": number("the largest hop limit of answers", 1, local=2, dev=2)},
        types=(TEMPLATE, NODE_CLASS, NODE_GROUP),
        judge=_metadata,
    ),
    ResourcePolicy(
        id="lt-encrypted-gp3",
        says="Disks of nodes and pods are encrypted, those of nodes of type gp3 and gone with the node.",
        severity="high",
        controls=("FSBP EC2.3",),
        fix="set encrypted and deleteOnTermination to true, volumeType to gp3",
        types=(TEMPLATE, NODE_CLASS, NODE_GROUP, STORAGE_CLASS),
        judge=_volumes,
    ),
    ResourcePolicy(
        id="lt-no-public-address",
        says="No node has an address on the internet.",
        severity="high",
        controls=("CIS EKS 5.4.3", "FSBP EC2.25"),
        fix="leave it out",
        types=(TEMPLATE, NODE_CLASS),
        judge=_public_address,
    ),
    ResourcePolicy(
        id="ng-release-pinned",
        says="The release of the node image is pinned, so that a new image is a change that was reviewed.",
        severity="medium",
        controls=(),
        fix="pin the release",
        types=(NODE_GROUP, NODE_CLASS),
        judge=_release,
    ),
    ResourcePolicy(
        id="karpenter-pool-limits",
        says="A NodePool has a limit, and replaces its nodes a few at a time.",
        severity="high",
        controls=(),
        fix="set limits and disruption.budgets",
        types=(NODE_POOL,),
        judge=_pool_limits,
    ),
)
