"""Managed node groups."""

from __future__ import annotations

import time
from typing import Any, ClassVar

from twin.aws.base import records
from twin.aws.base.clients import Clients
from twin.aws.base.errors import HalfCreated, HandlerError
from twin.aws.base.handler import Handler, Values
from twin.aws.base.lookup import or_none
from twin.aws.ec2 import api
from twin.aws.eks import auto_scaling, lookup
from twin.aws.iam import trust

_KIND = "node-groups"
# moto's DescribeNodegroup has these values. The twin's record holds those that moto cannot change or drops.
_OBSERVED = ("scalingConfig", "labels", "taints")
_CHANGED_IN_PLACE = ("labels", "nodeRepairConfig", "scalingConfig", "taints", "updateConfig")
_POLL_SECONDS = 0.2
_NODE_POLICIES = ("AmazonEKSWorkerNodePolicy",)
"""Without these policies no node registers (NodeCreationFailure):
https://docs.aws.amazon.com/eks/latest/userguide/create-node-role.html.
"""
_ARCHITECTURE = {"x86_64": "x86_64", "ARM_64": "arm64"}


def describe(clients: Clients, cluster: str, name: str) -> dict[str, Any] | None:
    """Return moto's description of the node group, or None."""
    answer = or_none(clients("eks").describe_nodegroup, clusterName=cluster, nodegroupName=name)
    found: dict[str, Any] | None = answer["nodegroup"] if answer else None
    return found


def has_plain_node(clients: Clients, cluster: str) -> bool:
    """Return whether a node group without taints has a desired size of at least one."""
    for name in clients("eks").list_nodegroups(clusterName=cluster)["nodegroups"]:
        group = describe(clients, cluster, name)
        if group and group["status"] == "ACTIVE" and not group.get("taints") and group["scalingConfig"]["desiredSize"] > 0:
            return True
    return False


class NodeGroup(Handler):
    token = "aws:eks/nodeGroup:NodeGroup"
    inputs = frozenset(
        {
            "amiType",
            "capacityType",
            "clusterName",
            "forceUpdateVersion",
            "instanceTypes",
            "labels",
            "launchTemplate",
            "nodeGroupName",
            "nodeRepairConfig",
            "nodeRoleArn",
            "releaseVersion",
            "scalingConfig",
            "subnetIds",
            "tags",
            "taints",
            "updateConfig",
            "version",
        }
    )
    defaults: ClassVar[Values] = {"capacityType": "ON_DEMAND"}
    computed = frozenset({"arn", "resources", "status", "version"})
    replace_on = frozenset(
        {
            *("amiType", "capacityType", "clusterName", "instanceTypes", "nodeGroupName", "nodeRoleArn", "subnetIds"),
            *("launchTemplate.id", "launchTemplate.name"),
        }
    )
    unordered = frozenset({"subnetIds", "taints"})
    name_input = "nodeGroupName"

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        eks = clients("eks")
        cluster, name = inputs["clusterName"], inputs["nodeGroupName"]
        version = _check(clients, inputs)
        types = _instance_types(clients, inputs)
        optional = {key: inputs[key] for key in ("instanceTypes", "releaseVersion") if key in inputs}
        group = eks.create_nodegroup(
            clusterName=cluster,
            nodegroupName=name,
            nodeRole=inputs["nodeRoleArn"],
            subnets=inputs["subnetIds"],
            scalingConfig=inputs["scalingConfig"],
            amiType=inputs["amiType"],
            capacityType=inputs.get("capacityType", "ON_DEMAND"),
            # If only the launch template has a type, moto describes t3.medium, and always its own default version.
            **{**optional, "instanceTypes": types},
            version=version,
            launchTemplate=_launch_template(inputs),
            labels=inputs.get("labels", {}),
            taints=inputs.get("taints", []),
            tags=inputs.get("tags", {}),
        )["nodegroup"]
        group_name = group["resources"]["autoScalingGroups"][0]["name"]
        id, starts = f"{cluster}:{name}", group["status"] == "ACTIVE"
        auto_scaling.create(clients, group_name, inputs, types[0], starts=starts)
        computed = {
            "arn": group["nodegroupArn"],
            "resources": [{"autoscalingGroups": [{"name": group_name}], "remoteAccessSecurityGroupId": ""}],
            "version": version,
        }
        records.put(clients, lookup.record_name(cluster, _KIND, name), self.outputs(inputs, computed))
        if not starts:
            raise HalfCreated(id, self.outputs(inputs, {}), _wait_in_vain(clients, cluster, name))
        self._put_configs(clients, inputs)
        return id, self.outputs(inputs, {**computed, "status": group["status"]})

    def read(self, clients: Clients, id: str, state: Values) -> Values | None:
        cluster, name = id.split(":")
        if lookup.cluster(clients, cluster) is None:
            return None
        group = describe(clients, cluster, name)
        record = records.get(clients, lookup.record_name(cluster, _KIND, name))
        if group is None or record is None:
            return None
        seen = {key: group[key] for key in _OBSERVED if key in state or group.get(key)}
        if seen.get("taints") and _as_set(seen["taints"]) == _as_set(state.get("taints", [])):
            seen["taints"] = state["taints"]
        return {**state, **record, **seen, "status": group["status"]}

    def update(self, clients: Clients, id: str, old: Values, new: Values) -> Values:
        cluster, name = new["clusterName"], new["nodeGroupName"]
        version = _check(clients, new)
        seen = self.read(clients, id, old)
        if seen is None:
            raise HandlerError(f"node group {name} of {cluster} does not exist")
        changed = [key for key in _CHANGED_IN_PLACE if old.get(key) != new.get(key)]
        if changed:
            clients("eks").update_nodegroup_config(
                clusterName=cluster,
                nodegroupName=name,
                scalingConfig=new["scalingConfig"],
                labels=_label_changes(old.get("labels", {}), new.get("labels", {})),
                taints=_taint_changes(old.get("taints", []), new.get("taints", [])),
            )
            self._put_configs(clients, new)
            auto_scaling.resize(clients, _group_name(seen), new["scalingConfig"])
        # A failed creation is not retried: without a difference, the provider sends EKS no request.
        outputs = self.outputs(new, {key: seen[key] for key in self.computed} | {"version": version})
        records.put(clients, lookup.record_name(cluster, _KIND, name), outputs)
        return outputs

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        cluster, name = id.split(":")
        group = describe(clients, cluster, name)
        if group is not None:
            clients("eks").delete_nodegroup(clusterName=cluster, nodegroupName=name)
            auto_scaling.delete(clients, group["resources"]["autoScalingGroups"][0]["name"])
        records.delete(clients, lookup.record_name(cluster, _KIND, name))

    @staticmethod
    def _put_configs(clients: Clients, inputs: Values) -> None:
        """Set values that moto accepts only in an update."""
        configs = {key: inputs[key] for key in ("updateConfig", "nodeRepairConfig") if key in inputs}
        if configs:
            clients("eks").update_nodegroup_config(
                clusterName=inputs["clusterName"], nodegroupName=inputs["nodeGroupName"], **configs
            )


def _wait_in_vain(clients: Clients, cluster: str, name: str) -> str:
    """Wait for a group that never becomes active; return the provider's message about it (node_group.go)."""
    while (group := describe(clients, cluster, name)) is not None and group["status"] == "CREATING":
        time.sleep(_POLL_SECONDS)
    status, issues = (group["status"], group["health"]["issues"]) if group is not None else ("", [])
    causes = "\n".join(f"{', '.join(one['resourceIds'])}: {one['code']}: {one['message']}" for one in issues)
    return (
        f"waiting for EKS Node Group ({cluster}:{name}) create: unexpected state '{status}', wanted target 'ACTIVE'. "
        f"last error: {causes}"
    )


def _group_name(outputs: Values) -> str:
    name: str = outputs["resources"][0]["autoscalingGroups"][0]["name"]
    return name


def _launch_template(inputs: Values) -> Values:
    template = inputs["launchTemplate"]
    return {key: template[key] for key in ("id", "name", "version") if key in template}


def _label_changes(old: Values, new: Values) -> Values:
    return {"addOrUpdateLabels": new, "removeLabels": sorted(old.keys() - new.keys())}


def _taint_changes(old: list[Values], new: list[Values]) -> Values:
    """Return the taint changes by key and effect: a new value is an update, not a removal and an addition."""
    kept = {(taint["key"], taint["effect"]) for taint in new}
    return {
        "addOrUpdateTaints": [taint for taint in new if taint not in old],
        "removeTaints": [taint for taint in old if (taint["key"], taint["effect"]) not in kept],
    }


def _as_set(taints: list[Values]) -> set[tuple[tuple[str, str], ...]]:
    return {tuple(sorted(taint.items())) for taint in taints}


def _check(clients: Clients, inputs: Values) -> str:
    """Raise HandlerError for the first thing that EKS would refuse; return the nodes' Kubernetes version."""
    where = f"node group {inputs['nodeGroupName']} of {inputs['clusterName']}"
    lookup.require_cluster(clients, inputs["clusterName"], where)
    cluster = lookup.record(clients, inputs["clusterName"])
    role = trust.require_role(clients, inputs["nodeRoleArn"], where, service="ec2.amazonaws.com", retried=False)
    lookup.require_attached(clients, role["RoleName"], _NODE_POLICIES, where)
    for subnet in api.require_all(clients, "subnet", inputs["subnetIds"], where):
        if subnet["VpcId"] != cluster["vpcId"]:
            raise HandlerError(f"{where}: subnet {subnet['SubnetId']} is in {subnet['VpcId']}, not in {cluster['vpcId']}")
    _check_image(clients, inputs["amiType"], _instance_types(clients, inputs), where)
    has_network = records.get(clients, lookup.record_name(inputs["clusterName"], "addons", "vpc-cni")) is not None
    if not has_network and cluster.get("bootstrapSelfManagedAddons", True) is False:
        # https://docs.aws.amazon.com/eks/latest/userguide/troubleshooting.html#not-ready
        raise HandlerError(
            f"{where}: the cluster has no vpc-cni add-on (yet), so no node would become Ready (NodeCreationFailure); "
            "make the node group depend on it"
        )
    release = inputs.get("releaseVersion")
    return str(inputs.get("version") or (".".join(release.split(".")[:2]) if release else cluster["version"]))


def _instance_types(clients: Clients, inputs: Values) -> list[str]:
    """Return the types from the group or its launch template; the template's version must exist."""
    where = f"node group {inputs['nodeGroupName']} of {inputs['clusterName']}"
    template = inputs["launchTemplate"]
    which = {"LaunchTemplateId": template["id"]} if "id" in template else {"LaunchTemplateName": template["name"]}
    version = str(template.get("version", "$Default"))
    answer = or_none(clients("ec2").describe_launch_template_versions, **which, Versions=[version])
    if not answer or not answer["LaunchTemplateVersions"]:
        raise HandlerError(f"{where}: launch template {next(iter(which.values()))} has no version {version}")
    data = answer["LaunchTemplateVersions"][0]["LaunchTemplateData"]
    types = list(inputs.get("instanceTypes", []))
    if types and "InstanceType" in data:
        # https://github.com/terraform-aws-modules/terraform-aws-eks/issues/1545
        raise HandlerError(f"{where}: Cannot specify instance types in launch template and API request")
    return types or [data.get("InstanceType", "t3.medium")]


def _check_image(clients: Clients, ami_type: str, types: list[str], where: str) -> None:
    """Require an image that matches the processor: https://github.com/HHS/simpler-grants-gov/pull/12404."""
    for description in clients("ec2").describe_instance_types(InstanceTypes=types)["InstanceTypes"]:
        architectures = description["ProcessorInfo"]["SupportedArchitectures"]
        if any(marker in ami_type and name not in architectures for marker, name in _ARCHITECTURE.items()):
            name = description["InstanceType"]
            raise HandlerError(f"{where}: [{name}] is not a valid instance type for requested amiType {ami_type}")
