"""Refuse in a node group what EKS, Auto Scaling and the boot of a node refuse, and moto does not."""

from __future__ import annotations

from typing import Any

from twin.aws.base import records
from twin.aws.base.clients import Clients
from twin.aws.base.errors import HandlerError
from twin.aws.base.handler import Values
from twin.aws.base.lookup import or_none
from twin.aws.ec2 import api
from twin.aws.eks import lookup
from twin.aws.iam import trust

# Without them a node cannot register or pull an image: the group ends in NodeCreationFailure.
_NODE_POLICIES = ("AmazonEKSWorkerNodePolicy",)
_REGISTRY_POLICIES = ("AmazonEC2ContainerRegistryPullOnly", "AmazonEC2ContainerRegistryReadOnly")
_ARCHITECTURE = {"x86_64": "x86_64", "ARM_64": "arm64"}
_KUBELET_SKEW = 3  # minors that a kubelet may be older than the API server


def check(clients: Clients, inputs: Values) -> str:
    """Raise HandlerError for the first thing wrong; return the Kubernetes version of the nodes."""
    where = _where(inputs)
    cluster = lookup.require_cluster(clients, inputs["clusterName"], where)
    version = _check_version(clients, inputs, where)
    _check_role(clients, inputs["nodeRoleArn"], where)
    zones = _check_subnets(clients, inputs["subnetIds"], lookup.record(clients, cluster["name"])["vpcId"], where)
    data = launch_template_data(clients, inputs["launchTemplate"], where)
    _check_template(inputs, data, where)
    types = instance_types(clients, inputs)
    _check_ami(clients, inputs["amiType"], types, where)
    _check_offered(clients, types, zones, where)
    _check_network_add_on(clients, cluster["name"], where)
    return version


def instance_types(clients: Clients, inputs: Values) -> list[str]:
    """Return the types of the group, from itself or from its launch template; HandlerError when both or none has them."""
    where = _where(inputs)
    own = list(inputs.get("instanceTypes", []))
    data = launch_template_data(clients, inputs["launchTemplate"], where)
    if own and "InstanceType" in data:
        raise HandlerError(
            f"{where}: instance types are in the node group and in its launch template; only one may have them"
        )
    if not own and "InstanceType" not in data:
        raise HandlerError(f"{where}: neither the node group nor its launch template has an instance type")
    return own or [data["InstanceType"]]


def launch_template_data(clients: Clients, template: Values, where: str) -> dict[str, Any]:
    """Return the data of the version that the group names; HandlerError when template or version do not exist."""
    which = {"LaunchTemplateId": template["id"]} if "id" in template else {"LaunchTemplateName": template["name"]}
    version = str(template.get("version", "$Default"))
    answer = or_none(clients("ec2").describe_launch_template_versions, **which, Versions=[version])
    if not answer or not answer["LaunchTemplateVersions"]:
        raise HandlerError(f"{where}: launch template {next(iter(which.values()))} has no version {version}")
    data: dict[str, Any] = answer["LaunchTemplateVersions"][0]["LaunchTemplateData"]
    return data


def _where(inputs: Values) -> str:
    return f"node group {inputs['nodeGroupName']} of {inputs['clusterName']}"


def _check_version(clients: Clients, inputs: Values, where: str) -> str:
    cluster = str(lookup.record(clients, inputs["clusterName"])["version"])
    version = str(inputs.get("version", cluster))
    release = inputs.get("releaseVersion")
    if release is not None:
        minor = ".".join(release.split(".")[:2])
        version = str(inputs.get("version", minor))
        if minor != version:
            raise HandlerError(f"{where}: AMI release {release} is not of Kubernetes {version}")
    if not int(cluster.split(".")[1]) - _KUBELET_SKEW <= int(version.split(".")[1]) <= int(cluster.split(".")[1]):
        raise HandlerError(f"{where}: Kubernetes {version} nodes do not go with a {cluster} control plane")
    return version


def _check_role(clients: Clients, arn: str, where: str) -> None:
    role = trust.require_role(clients, arn, where, service="ec2.amazonaws.com", retried=False)
    lookup.require_attached(clients, role["RoleName"], _NODE_POLICIES, where)
    attached = clients("iam").list_attached_role_policies(RoleName=role["RoleName"])["AttachedPolicies"]
    if not {policy["PolicyName"] for policy in attached} & set(_REGISTRY_POLICIES):
        raise HandlerError(f"{where}: role {role['RoleName']} has none of {', '.join(_REGISTRY_POLICIES)} (yet)")


def _check_subnets(clients: Clients, subnet_ids: list[str], vpc_id: str, where: str) -> list[str]:
    if not subnet_ids:
        raise HandlerError(f"{where}: no subnet")
    zones = []
    for id in subnet_ids:
        subnet = api.require(clients, "subnet", id, where)
        if subnet["VpcId"] != vpc_id:
            raise HandlerError(f"{where}: subnet {id} is in {subnet['VpcId']}, the cluster in {vpc_id}")
        zones.append(subnet["AvailabilityZone"])
    return sorted(set(zones))


def _check_template(inputs: Values, data: dict[str, Any], where: str) -> None:
    """EKS user guide, "Customize managed nodes with launch templates": what a template may not have."""
    for key, what in (
        ("IamInstanceProfile", "an instance profile"),
        ("InstanceInitiatedShutdownBehavior", "a shutdown behaviour"),
        ("HibernationOptions", "hibernation"),
    ):
        if key in data:
            raise HandlerError(f"{where}: its launch template has {what}, which EKS sets itself")
    if any("SubnetId" in interface for interface in data.get("NetworkInterfaces", [])):
        raise HandlerError(f"{where}: its launch template names a subnet; subnets belong to the node group")
    if ("ImageId" in data) != (inputs["amiType"] == "CUSTOM"):
        raise HandlerError(f"{where}: amiType {inputs['amiType']} and the launch template's image do not go together")
    market = data.get("InstanceMarketOptions", {}).get("MarketType")
    capacity = inputs.get("capacityType", "ON_DEMAND")
    if (market == "capacity-block") != (capacity == "CAPACITY_BLOCK"):
        raise HandlerError(f"{where}: capacity type {capacity}, but the launch template's market is {market or 'on-demand'}")
    if market == "spot":
        raise HandlerError(f"{where}: spot belongs to the node group's capacity type, not to its launch template")
    target = data.get("CapacityReservationSpecification", {}).get("CapacityReservationTarget")
    if capacity == "CAPACITY_BLOCK" and not target:
        raise HandlerError(f"{where}: a capacity block group needs the reservation's id in its launch template")


def _check_ami(clients: Clients, ami_type: str, types: list[str], where: str) -> None:
    """Require a boot image for the processor, and with the NVIDIA driver exactly when there is a GPU."""
    for description in clients("ec2").describe_instance_types(InstanceTypes=types)["InstanceTypes"]:
        name = description["InstanceType"]
        makers = {gpu["Manufacturer"] for gpu in description.get("GpuInfo", {}).get("Gpus", [])}
        if "NVIDIA" in ami_type and "NVIDIA" not in makers:
            raise HandlerError(f"{where}: AMI type {ami_type} on {name}, which has no NVIDIA GPU")
        if "NVIDIA" in makers and "NVIDIA" not in ami_type and ami_type != "CUSTOM":
            raise HandlerError(f"{where}: {name} has an NVIDIA GPU, AMI type {ami_type} has no driver for it")
        architectures = description["ProcessorInfo"]["SupportedArchitectures"]
        for marker, architecture in _ARCHITECTURE.items():
            if marker in ami_type and architecture not in architectures:
                raise HandlerError(f"{where}: AMI type {ami_type} on {name}, which is {', '.join(architectures)}")


def _check_offered(clients: Clients, types: list[str], zones: list[str], where: str) -> None:
    offerings = clients("ec2").describe_instance_type_offerings(
        LocationType="availability-zone", Filters=[{"Name": "instance-type", "Values": types}]
    )["InstanceTypeOfferings"]
    offered = {offering["Location"] for offering in offerings}
    missing = [zone for zone in zones if zone not in offered]
    if missing:
        raise HandlerError(f"{where}: {', '.join(types)} is not offered in {', '.join(missing)}")


def _check_network_add_on(clients: Clients, cluster: str, where: str) -> None:
    if records.get(clients, lookup.record_name(cluster, "addons", "vpc-cni")) is not None:
        return
    if lookup.record(clients, cluster).get("bootstrapSelfManagedAddons", True) is False:
        raise HandlerError(
            f"{where}: the cluster has no vpc-cni add-on (yet), so no node would become Ready (NodeCreationFailure); "
            "make the node group depend on it"
        )
