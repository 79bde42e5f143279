"""Add late EKS failures to moto: node groups without capacity, and add-ons that stay degraded.

EKS answers `CreateNodegroup` at once and fails later. A group without capacity is `CREATING`, with no issue in its health;
only its Auto Scaling group's activities name the cause. Then it is `CREATE_FAILED` permanently and refuses updates. On AWS
that takes about 40 minutes, here `FAILS_AFTER_SECONDS`. An add-on's record is the twin's (eks/addons.py). The add-on is
`DEGRADED` while its name is in `DEGRADED_ADD_ONS`, and then recovers by itself.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from moto.autoscaling.responses import AutoScalingResponse
from moto.core.responses import ActionResult
from moto.core.utils import utcnow
from moto.ec2.models import ec2_backends
from moto.eks import urls
from moto.eks.exceptions import InvalidRequestException, ResourceNotFoundException
from moto.eks.models import EKSBackend, Nodegroup, eks_backends
from moto.eks.responses import EKSResponse

from twin.aws import faults
from twin.aws.base import moto_records, records

FAILS_AFTER_SECONDS = 2.0
NOT_ACTIVE = "Nodegroup cannot be updated as it is currently not in Active State"
UNHEALTHY = "The add-on is unhealthy because it doesn't have the desired number of replicas."
_SPOT = (
    "Could not launch Spot Instances. UnfulfillableCapacity - Unable to fulfill capacity due to your request configuration. "
    "Please adjust your request and try again. Launching EC2 instance failed."
)
_ON_DEMAND = (
    "Could not launch On-Demand Instances. InsufficientInstanceCapacity - We currently do not have sufficient {type} "
    "capacity in the Availability Zone you requested ({zone}). Launching EC2 instance failed."
)
_CAUSE = (
    "At {at} an instance was started in response to a difference between desired and actual capacity, increasing the "
    "capacity from 0 to 1."
)
_create = EKSBackend.create_nodegroup
_describe = EKSBackend.describe_nodegroup
_update = EKSBackend.update_nodegroup_config


def install() -> None:
    """Patch the moto of this process."""
    EKSBackend.create_nodegroup = create_nodegroup  # type: ignore[method-assign,assignment]
    EKSBackend.describe_nodegroup = describe_nodegroup  # type: ignore[method-assign,assignment]
    EKSBackend.update_nodegroup_config = update_nodegroup_config  # type: ignore[method-assign,assignment]
    AutoScalingResponse.describe_scaling_activities = describe_scaling_activities  # type: ignore[method-assign,assignment]
    EKSResponse.list_addons = list_addons  # type: ignore[attr-defined]
    EKSResponse.describe_addon = describe_addon  # type: ignore[attr-defined]
    for path in ("addons$", "addons/(?P<addonName>[^/]+)$"):
        urls.url_paths[f"{{0}}/clusters/(?P<name>[^/]+)/{path}"] = urls.response.dispatch


def create_nodegroup(backend: EKSBackend, *arguments: Any, **named: Any) -> Nodegroup:
    """Create a group; it starts to fail if it needs an instance and its types have no capacity."""
    group = _create(backend, *arguments, **named)
    missing = faults.listed(_parameter(backend, faults.WITHOUT_CAPACITY))
    subnets = ec2_backends[backend.account_id][backend.region_name].describe_subnets(subnet_ids=group.subnets)
    zones = sorted({subnet.availability_zone for subnet in subnets})
    kind = "spot" if group.capacity_type == "SPOT" else "on-demand"
    if group.scaling_config["desiredSize"] > 0 and all(
        _is_missing(one, kind, zones, missing) for one in group.instance_types
    ):
        group.status = "CREATING"
        failure = _SPOT if kind == "spot" else _ON_DEMAND.format(type=group.instance_types[0], zone=zones[0])
        group.failure = failure  # type: ignore[attr-defined]
    return group


def describe_nodegroup(backend: EKSBackend, cluster_name: str, nodegroup_name: str) -> Nodegroup:
    """Describe the current state of a group."""
    group = _describe(backend, cluster_name, nodegroup_name)
    if group.status == "CREATING" and utcnow() - group.created_at > timedelta(seconds=FAILS_AFTER_SECONDS):
        group.status = "CREATE_FAILED"
        issue = {"code": "AsgInstanceLaunchFailures", "message": _failure(group), "resourceIds": [_scaling_group(group)]}
        group.health = {"issues": [issue]}
    return group


def update_nodegroup_config(backend: EKSBackend, cluster_name: str, nodegroup_name: str, **named: Any) -> dict[str, Any]:
    """Refuse an update of a group that never became active."""
    if backend.describe_nodegroup(cluster_name, nodegroup_name).status != "ACTIVE":
        raise InvalidRequestException(message=NOT_ACTIVE)
    return _update(backend, cluster_name, nodegroup_name, **named)


def describe_scaling_activities(response: AutoScalingResponse) -> ActionResult:
    """Return the failed launch for the Auto Scaling group of a node group without capacity."""
    name = response._get_param("AutoScalingGroupName")
    clusters = eks_backends[response.current_account][response.region].clusters.values()
    failing = [group for cluster in clusters for group in cluster.nodegroups.values() if _failure(group)]
    return ActionResult({"Activities": [_activity(group) for group in failing if name in (None, _scaling_group(group))]})


def list_addons(response: EKSResponse) -> ActionResult:
    """Return the names of a cluster's add-ons."""
    cluster = response._get_param("name")
    response.eks_backend.describe_cluster(cluster)
    return ActionResult({"addons": sorted(_add_ons(response, cluster))})


def describe_addon(response: EKSResponse) -> ActionResult:
    """Return an add-on with its health."""
    cluster, name = response._get_param("name"), response._get_param("addonName")
    response.eks_backend.describe_cluster(cluster)
    record = _add_ons(response, cluster).get(name)
    if record is None:
        missing = {"clusterName": cluster, "nodegroupName": None, "fargateProfileName": None, "addonName": name}
        raise ResourceNotFoundException(message=f"No addon: {name} found in cluster: {cluster}", **missing)
    degraded = name in faults.listed(_parameter(response.eks_backend, faults.DEGRADED_ADD_ONS))
    issue = {"code": "InsufficientNumberOfReplicas", "message": UNHEALTHY, "resourceIds": []}
    described = {
        "addonName": name,
        "clusterName": cluster,
        "status": "DEGRADED" if degraded else "ACTIVE",
        "health": {"issues": [issue] if degraded else []},
        "addonVersion": record["addonVersion"],
        "addonArn": record["arn"],
        "createdAt": datetime.fromisoformat(record["createdAt"]),
        "modifiedAt": datetime.fromisoformat(record["modifiedAt"]),
        "tags": record.get("tags", {}),
        **{key: record[key] for key in ("configurationValues", "serviceAccountRoleArn") if key in record},
    }
    return ActionResult({"addon": described})


def _is_missing(type: str, kind: str, zones: list[str], missing: frozenset[str]) -> bool:
    anywhere = not missing.isdisjoint({type, f"{type}/{kind}"})
    return anywhere or all(f"{type}/{zone}" in missing for zone in zones)


def _activity(group: Nodegroup) -> dict[str, Any]:
    at = group.created_at
    return {
        "ActivityId": str(uuid.uuid5(uuid.NAMESPACE_URL, group.arn)),
        "AutoScalingGroupName": _scaling_group(group),
        "Description": "Launching a new EC2 instance",
        "Cause": _CAUSE.format(at=at.strftime("%Y-%m-%dT%H:%M:%SZ")),
        "StartTime": at,
        "EndTime": at,
        "StatusCode": "Failed",
        "StatusMessage": _failure(group),
        "Progress": 100,
    }


def _failure(group: Nodegroup) -> str:
    return str(getattr(group, "failure", ""))


def _scaling_group(group: Nodegroup) -> str:
    return str(group.resources["autoScalingGroups"][0]["name"])  # type: ignore[index]


def _add_ons(response: EKSResponse, cluster: str) -> Mapping[str, Mapping[str, Any]]:
    return moto_records.below(response.current_account, response.region, records.path("eks", cluster, "addons"))


def _parameter(backend: EKSBackend, name: str) -> str:
    return moto_records.text(backend.account_id, backend.region_name, name)
