"""Rules about GPU nodes: allowed types, their number, and required labels and taints."""

from __future__ import annotations

from collections.abc import Iterator

from triton_policies.findings import Finding, Violation, each
from triton_policies.gpu_types import family_of, gpus_of, has_gpu
from triton_policies.nodes import GPU_KEY, NODE_GROUP, NODE_POOL, TEMPLATE
from triton_policies.policy import Policy, ResourcePolicy, Settings, StackPolicy, number, strings
from triton_policies.reading import Property
from triton_policies.resources import Resource, Stack

PRESENT_LABEL = "nvidia.com/gpu.present"
_TYPE_KEY, _FAMILY_KEY = "node.kubernetes.io/instance-type", "karpenter.k8s.aws/instance-family"


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
        # For a Capacity Block the launch template has the type, so the AMI type is checked.
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
    gpus: list[tuple[str, int]] = []

    def check(one: Resource) -> Iterator[Finding]:
        if one.type == NODE_GROUP:
            most = max(map(gpus_of, _types_of(stack, one)), default=0)
            if most:
                gpus.append((one.name, most * int(one["scalingConfig.maxSize"].value or 0)))
            return
        limit = one["spec.limits"][GPU_KEY]
        if limit.value is not None:
            gpus.append((one.name, int(limit.value)))
        elif any(map(has_gpu, _pool_types(one))):
            yield Violation(limit.path, "is not set: the pool may start GPUs without end", one, fix="set it")

    yield from each((*stack.of(NODE_GROUP), *stack.of(NODE_POOL)), check)
    total, most = sum(count for _, count in gpus), settings["maxGpus"]
    if total > most:
        parts = ", ".join(f"{name} {count}" for name, count in gpus)
        yield Violation("", f"the stack may start {total} GPUs ({parts}), {most} is the most here")


def _types_of(stack: Stack, group: Resource) -> list[str]:
    """Return a group's instance types. If it has none, as with Capacity Blocks, return its launch template's type."""
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


def _requirements(pool: Resource) -> list[Property]:
    return pool["spec.template.spec.requirements"].elements


def _chooses(requirement: Property) -> bool:
    return requirement["key"].value in (_TYPE_KEY, _FAMILY_KEY) and requirement["operator"].value == "In"


def _pool_types(pool: Resource) -> Iterator[str]:
    for requirement in _requirements(pool):
        if _chooses(requirement):
            for value in requirement["values"].value or []:
                yield value if "." in value else f"{value}."


POLICIES: tuple[Policy, ...] = (
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
)
