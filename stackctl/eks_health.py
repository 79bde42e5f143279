"""Report node groups and add-ons that are not healthy: the cause as AWS states it, and the command that repairs them.

EKS returns from `CreateNodegroup` and `CreateAddon` before it knows whether they succeed. Pulumi keeps in its state what
failed afterwards, and the next `pulumi up` changes nothing and succeeds (https://github.com/pulumi/pulumi/issues/21458).
Only a replacement repairs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from console import pulumi_program
from console.pulumi_program import PulumiUnusable
from spec.gpu_pool import POOL_LABEL
from spec.settings import Settings
from spec.settings.nodes import SYSTEM_GROUP_NAME
from spec.stack_names import stack_file
from stackctl.account.read_only import Operations, or_none

OPERATIONS: Operations = {
    "autoscaling": {"DescribeScalingActivities": "autoscaling:DescribeScalingActivities"},
    "eks": {
        operation: f"eks:{operation}" for operation in ("DescribeAddon", "DescribeNodegroup", "ListAddons", "ListNodegroups")
    },
}
_GROUP, _ADD_ON = "aws:eks/nodeGroup:NodeGroup", "aws:eks/addon:Addon"
_KINDS = {_GROUP: "node group", _ADD_ON: "add-on"}
_FLAG = {_GROUP: "nodegroup", _ADD_ON: "addon"}
_HEALTHY = frozenset({"ACTIVE", "CREATING", "UPDATING", "DELETING"})
_FAILED = frozenset({"CREATE_FAILED", "DELETE_FAILED"})
_LAUNCH_FAILED = frozenset({"Cancelled", "Failed"})


@dataclass(frozen=True)
class Ailment:
    """A node group or an add-on that is not healthy, or whose last machine could not be launched.

    `type` and `id`: the resource of Pulumi. `causes`: the issues that EKS reports, then the last scaling activity.
    """

    type: str
    id: str
    status: str
    causes: tuple[str, ...]
    pool: str = SYSTEM_GROUP_NAME
    """The pool of nodes that it belongs to; add-ons run on the system nodes."""

    @property
    def name(self) -> str:
        """Return its name within the cluster."""
        return self.id.partition(":")[2]

    @property
    def healthy(self) -> bool:
        """Return whether EKS calls it healthy: then only a launch failed."""
        return self.status in _HEALTHY

    @property
    def failed(self) -> bool:
        """Return whether it stays as it is: EKS tries nothing again, and refuses updates."""
        return self.status in _FAILED

    def __str__(self) -> str:
        causes = "; ".join(self.causes) or "EKS reports no issue"
        return f"{_KINDS[self.type]} {self.name} is {self.status}: {causes}"


def ailments(readers: Callable[[str], Any], settings: Settings) -> list[Ailment]:
    """Return what is not healthy of the stack's cluster; nothing if there is no cluster.

    Raises ClientError; in an existing cluster PulumiUnusable too: only the state tells the stack's groups from others.
    """
    cluster, eks = settings.used_cluster, readers("eks")
    listed = or_none(lambda: _names(eks, "list_nodegroups", "nodegroups", cluster), "ResourceNotFoundException")
    if listed is None:
        return []
    groups = [eks.describe_nodegroup(clusterName=cluster, nodegroupName=name)["nodegroup"] for name in listed]
    found = [_of_group(group, readers) for group in groups]
    for name in _names(eks, "list_addons", "addons", cluster):
        addon = eks.describe_addon(clusterName=cluster, addonName=name)["addon"]
        found.append(Ailment(_ADD_ON, f"{cluster}:{name}", addon["status"], tuple(_issues(addon))))
    ailing = [one for one in found if not one.healthy or one.causes]
    if settings.cluster.existing is None or not ailing:
        return ailing
    ours = _urns(settings.stack)  # the other groups of that cluster are its owner's
    return [one for one in ailing if (one.type, one.id) in ours]


def report(found: Ailment, settings: Settings, urns: Mapping[tuple[str, str], str] | None = None) -> str:
    """Return the ailment, its cause and what repairs it, as a sentence. `urns` as `state_urns` returns them."""
    return f"{found}; {remedy(found, settings, urns if urns is not None else state_urns(settings.stack))}"


def remedy(found: Ailment, settings: Settings, urns: Mapping[tuple[str, str], str]) -> str:
    """Return what a person does about it, with the command that repairs it."""
    urn = urns.get((found.type, found.id))
    file = stack_file(settings.stack)
    if urn is not None:
        # A URN has a `$` for each parent.
        command = f"`pulumi up --stack {settings.stack} --replace '{urn}'`"
    else:
        flag = _FLAG[found.type]
        name = f"--{flag}-name {found.name} --cluster-name {settings.used_cluster} --region {settings.region}"
        command = (
            f"`aws eks delete-{flag} {name}`, `aws eks wait {flag}-deleted {name}`, "
            f"then `pulumi up --refresh --stack {settings.stack}`"
        )
    if found.failed:
        return f"another `pulumi up` does not repair it: remove the cause, or change {file}, then {command}"
    elsewhere = f", or name other instance types, zones or another capacity in {file}" if found.type == _GROUP else ""
    return f"EKS tries again by itself: remove the cause{elsewhere}; if it stays so, {command}"


def state_urns(stack: str) -> dict[tuple[str, str], str]:
    """Return the URN of each resource of a stack by type and id; none if the state cannot be read."""
    try:
        return _urns(stack)
    except PulumiUnusable:
        return {}


def _urns(stack: str) -> dict[tuple[str, str], str]:
    resources = pulumi_program.deployment(stack).get("resources") or ()
    return {(one["type"], one["id"]): one["urn"] for one in resources if one.get("id") and not one.get("delete")}


def _of_group(group: Mapping[str, Any], readers: Callable[[str], Any]) -> Ailment:
    causes = [*_issues(group)]
    for scaling in group.get("resources", {}).get("autoScalingGroups", ()):
        causes += [one for one in _failed_launch(readers("autoscaling"), scaling["name"]) if one not in causes]
    id, pool = f"{group['clusterName']}:{group['nodegroupName']}", (group.get("labels") or {}).get(POOL_LABEL, "")
    return Ailment(_GROUP, id, group["status"], tuple(causes), pool)


def _issues(described: Mapping[str, Any]) -> Iterator[str]:
    for issue in described.get("health", {}).get("issues", ()):
        yield f"{issue.get('code', 'issue')}: {' '.join(str(issue.get('message', '')).split())}"


def _failed_launch(autoscaling: Any, group: str) -> Iterator[str]:
    """Yield why the newest activity of a group failed, if it did. While EKS still waits, only this names the cause."""
    try:
        answer = autoscaling.describe_scaling_activities(AutoScalingGroupName=group, MaxRecords=1)
    except (ClientError, BotoCoreError) as error:
        yield f"its last scaling activity cannot be read ({error})"
        return
    for activity in answer["Activities"]:
        if activity["StatusCode"] in _LAUNCH_FAILED:
            message = " ".join(str(activity.get("StatusMessage") or activity.get("Cause") or "").split())
            yield f"last scaling activity {activity['StatusCode']} at {activity['StartTime']:%Y-%m-%d %H:%M}Z: {message}"


def _names(eks: Any, operation: str, key: str, cluster: str) -> list[str]:
    pages = eks.get_paginator(operation).paginate(clusterName=cluster)
    return [name for page in pages for name in page[key]]
