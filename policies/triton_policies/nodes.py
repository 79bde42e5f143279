"""Node groups, launch templates and Karpenter's pools."""

from __future__ import annotations

import re
from collections.abc import Iterator

from triton_policies.findings import Finding, Violation, each, is_true, require
from triton_policies.gpu_types import family_of, gpus_of, has_gpu
from triton_policies.policy import Policy, ResourcePolicy, Settings, StackPolicy, number, strings
from triton_policies.reading import Property
from triton_policies.resources import Resource, Stack

NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
NODE_POOL = "kubernetes:karpenter.sh/v1:NodePool"
NODE_CLASS = "kubernetes:karpenter.k8s.aws/v1:EC2NodeClass"
STORAGE_CLASS = "kubernetes:storage.k8s.io/v1:StorageClass"

GPU_KEY = "nvidia.com/gpu"
PRESENT_LABEL = "nvidia.com/gpu.present"
_TYPE_KEY, _FAMILY_KEY = "node.kubernetes.io/instance-type", "karpenter.k8s.aws/instance-family"
_EBS_DRIVER = "ebs.csi.aws.com"


def _ami(group: Resource, settings: Settings) -> Iterator[Finding]:
    ami = group["amiType"]
    if ami.value == "CUSTOM":
        return
    nvidia = "NVIDIA" in str(ami.value)
    for one in group["instanceTypes"].elements:
        if has_gpu(one.value) and not nvidia:
            yield Violation(ami.path, f"is {ami.value}, which has no driver for the GPU of {one.value}")
        if not has_gpu(one.value) and nvidia:
            yield Violation(ami.path, f"is {ami.value}, and {one.value} has no NVIDIA GPU")


def _taint(resource: Resource, settings: Settings) -> Iterator[Finding]:
    if resource.type == NODE_POOL:
        template = resource["spec.template"]
        types = list(_pool_types(resource))
        labels, taints = template["metadata"]["labels"], template["spec"]["taints"]
        gpu = any(map(has_gpu, types)) or GPU_KEY in resource["spec.limits"].entries
    else:
        labels, taints = resource["labels"], resource["taints"]
        # Of a Capacity Block the launch template has the type; the image tells then.
        gpu = any(map(has_gpu, resource["instanceTypes"].value or [])) or "NVIDIA" in str(resource["amiType"].value)
    if not gpu:
        return
    if labels[PRESENT_LABEL].value != "true":
        yield Violation(
            labels[PRESENT_LABEL].path,
            "is not true: the device plugin passes the nodes by, and pods find no GPU",
            fix=f"label the nodes {PRESENT_LABEL}=true",
        )
    if not any(taint["key"].value == GPU_KEY for taint in taints.elements):
        yield Violation(taints.path, f"has no {GPU_KEY}: any pod may take the place of one that needs the GPU")


def _families(resource: Resource, settings: Settings) -> Iterator[Finding]:
    allowed = settings["gpuFamilies"]

    def check(one: Property) -> Iterator[Finding]:
        name = str(one.value)
        family = family_of(name)
        if has_gpu(name if "." in name else f"{name}.") and family not in allowed:
            yield Violation(one.path, f"is {name}; GPU families here are {', '.join(allowed)}")

    if resource.type == NODE_POOL:
        chosen = [
            value
            for requirement in _requirements(resource)
            if _chooses(requirement)
            for value in requirement["values"].elements
        ]
        if not chosen:
            yield Violation(
                "spec.template.spec.requirements",
                f"does not say {_TYPE_KEY} or {_FAMILY_KEY}: Karpenter may start any instance type",
                fix=f"require {_TYPE_KEY} In the types that may run",
            )
    elif resource.type == TEMPLATE:
        chosen = [resource["instanceType"]] if resource["instanceType"].given else []
    else:
        chosen = resource["instanceTypes"].elements
    yield from each(chosen, check)


def _gpu_budget(stack: Stack, settings: Settings) -> Iterator[Finding]:
    total = 0
    parts = []
    for group in stack.of(NODE_GROUP):
        most = max(map(gpus_of, _types_of(stack, group)), default=0)
        if most:
            gpus = most * int(group["scalingConfig.maxSize"].value or 0)
            parts.append(f"{group.name} {gpus}")
            total += gpus
    for pool in stack.of(NODE_POOL):
        limit = pool["spec.limits"][GPU_KEY].value
        if limit is not None:
            parts.append(f"{pool.name} {limit}")
            total += int(limit)
        elif any(map(has_gpu, _pool_types(pool))):
            path = pool["spec.limits"][GPU_KEY].path
            yield Violation(path, "is not set: the pool may start GPUs without end", pool, fix="set it")
    if total > settings["maxGpus"]:
        yield Violation("", f"the stack may start {total} GPUs ({', '.join(parts)}), {settings['maxGpus']} is the most here")


def _types_of(stack: Stack, group: Resource) -> list[str]:
    """Return a group's instance types; of one without, as for Capacity Blocks, those of its launch template."""
    own = group["instanceTypes"]
    if own.known and own.value:
        return list(own.value)
    templates = [one for one in stack.of(TEMPLATE) if _launches(stack, group, one)]
    found = [str(one["instanceType"].value) for one in templates if one["instanceType"].value]
    return found or list(own.value or [])


def _launches(stack: Stack, group: Resource, template: Resource) -> bool:
    id = template["id"]
    named = group["launchTemplate.id"]
    return template.urn in group.sources.get("launchTemplate", ()) or (
        id.known and named.known and id.given and id.value == named.value
    )


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
            if not _uses(stack, user, key, subnet):
                continue
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
    terms = user["spec.subnetSelectorTerms"] if key == "spec" else None
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
        table
        for table in stack.of("aws:ec2/routeTable:RouteTable")
        if any(stack.names(one, "routeTableId", table) for one in associations)
    ]
    gateways = list(stack.of("aws:ec2/internetGateway:InternetGateway"))
    for route in stack.of("aws:ec2/route:Route"):
        in_table = any(stack.names(route, "routeTableId", table) for table in tables)
        if in_table and any(stack.names(route, "gatewayId", gateway) for gateway in gateways):
            yield route


def _requirements(pool: Resource) -> list[Property]:
    return pool["spec.template.spec.requirements"].elements


def _chooses(requirement: Property) -> bool:
    return requirement["key"].value in (_TYPE_KEY, _FAMILY_KEY) and requirement["operator"].value == "In"


def _pool_types(pool: Resource) -> Iterator[str]:
    for requirement in _requirements(pool):
        if _chooses(requirement):
            for value in requirement["values"].value or []:
                yield value if re.search(r"\.", value) else f"{value}."


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
        id="ng-gpu-ami-matches",
        says="A GPU node group has the AMI with NVIDIA's driver, any other the one without.",
        severity="high",
        controls=(),
        fix="set it to AL2023_x86_64_NVIDIA for GPU types, to AL2023_x86_64_STANDARD for the others",
        types=(NODE_GROUP,),
        judge=_ami,
    ),
    ResourcePolicy(
        id="ng-gpu-taint-label",
        says="GPU nodes carry the taint that keeps other pods away and the label that the device plugin looks for.",
        severity="medium",
        controls=(),
        fix=f"taint the nodes {GPU_KEY}=present:NoSchedule",
        types=(NODE_GROUP, NODE_POOL),
        judge=_taint,
    ),
    ResourcePolicy(
        id="ng-instance-allowlist",
        says="Nodes are of the GPU families that the environment may pay for.",
        severity="high",
        controls=(),
        fix="choose one of them, or put the family into `gpuFamilies` of this policy for the environment",
        settings={
            "gpuFamilies": strings(
                "GPU instance families that may run",
                ["g5", "g6", "g6e", "p4d", "p4de", "p5"],
                local=["g4dn", "g5", "g6"],
                dev=["g4dn", "g5", "g6"],
                staging=["g4dn", "g5", "g6"],
            )
        },
        types=(NODE_GROUP, TEMPLATE, NODE_POOL),
        judge=_families,
    ),
    StackPolicy(
        id="ng-max-size-cap",
        says="All pools of a stack together can start no more GPUs than its budget has.",
        severity="high",
        controls=(),
        fix="lower the largest sizes, or raise `maxGpus` of this policy for the environment",
        settings={"maxGpus": number("GPUs that a stack may start at the same time", 32, local=4, dev=8, staging=8)},
        judge=_gpu_budget,
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
