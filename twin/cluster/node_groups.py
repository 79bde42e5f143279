"""Read the EKS node groups that the program created from AWS (moto)."""

from __future__ import annotations

import base64
import functools
import re
from typing import Any

from botocore.config import Config

from twin.aws import moto_server
from twin.aws.base.clients import session
from twin.cluster.node_objects import Machine, NodeGroup

_DEFAULT_DISK_GIB = 20
_MIG = re.compile(r"^MIG_PROFILE=(\S+)\nMIG_INSTANCES=(\d+)$", re.MULTILINE)


class AwsReader:
    """Reads one region of one AWS endpoint. `ec2` is its client."""

    def __init__(self, endpoint_url: str, region: str) -> None:
        aws = session(region)
        config = Config(retries={"max_attempts": 1}, connect_timeout=3, read_timeout=10)
        self._eks = aws.client("eks", endpoint_url=endpoint_url, config=config)
        self.ec2 = aws.client("ec2", endpoint_url=endpoint_url, config=config)
        self._ssm = aws.client("ssm", moto_server.MARKER_REGION, endpoint_url=endpoint_url, config=config)
        self.machine = functools.cache(functools.partial(describe_machine, self.ec2))

    def settled(self) -> bool:
        """Return whether resources missing in AWS were deleted, and not lost in a restart (moto_server.acknowledge)."""
        return bool(self._ssm.get_parameters(Names=[moto_server.MARKER])["Parameters"])

    def node_groups(self) -> list[NodeGroup]:
        """Return every active node group. Raises botocore's errors if AWS does not answer."""
        found = []
        for cluster in self._eks.list_clusters()["clusters"]:
            version = self._eks.describe_cluster(name=cluster)["cluster"]["version"]
            for name in self._eks.list_nodegroups(clusterName=cluster)["nodegroups"]:
                described = self._eks.describe_nodegroup(clusterName=cluster, nodegroupName=name)["nodegroup"]
                if described["status"] in ("ACTIVE", "UPDATING", "DEGRADED"):
                    found.append(self._node_group(described, version))
        return found

    def _node_group(self, described: dict[str, Any], version: str) -> NodeGroup:
        template = self._launch_template(described.get("launchTemplate"))
        # If the launch template names a type, EKS accepts no list in the group.
        types = [template["InstanceType"]] if template.get("InstanceType") else described["instanceTypes"]
        machine = self.machine(types[0])
        return NodeGroup(
            cluster=described["clusterName"],
            name=described["nodegroupName"],
            desired=described["scalingConfig"]["desiredSize"],
            machine=machine,
            zones=self._zones(described["subnets"]),
            labels=described.get("labels") or {},
            taints=described.get("taints") or [],
            capacity_type=described.get("capacityType") or "ON_DEMAND",
            # A group without its own version gets the cluster's; moto would return 1.19.
            kubernetes_version=version,
            disk_gib=disk_gib(template, described.get("diskSize"), machine),
            mig=_mig(user_data_of(template)),
        )

    def _launch_template(self, reference: dict[str, str] | None) -> dict[str, Any]:
        if not reference or not reference.get("id"):
            return {}
        answer = self.ec2.describe_launch_template_versions(
            LaunchTemplateId=reference["id"], Versions=[str(reference.get("version") or "$Default")]
        )
        versions = answer["LaunchTemplateVersions"]
        return versions[0]["LaunchTemplateData"] if versions else {}

    def _zones(self, subnets: list[str]) -> list[str]:
        answer = self.ec2.describe_subnets(SubnetIds=subnets)["Subnets"]
        return sorted({subnet["AvailabilityZone"] for subnet in answer})


def describe_machine(ec2: Any, name: str) -> Machine:
    """Return an instance type as EC2 describes it."""
    described = ec2.describe_instance_types(InstanceTypes=[name])["InstanceTypes"][0]
    return Machine(
        name=name,
        vcpus=described["VCpuInfo"]["DefaultVCpus"],
        memory_mib=described["MemoryInfo"]["SizeInMiB"],
        gpus=sum(gpu["Count"] for gpu in described.get("GpuInfo", {}).get("Gpus", [])),
        instance_store_gb=described.get("InstanceStorageInfo", {}).get("TotalSizeInGB", 0),
    )


def disk_gib(template: dict[str, Any], disk_size: int | None, machine: Machine) -> int:
    """Return the ephemeral storage: the instance store if the node configuration uses it, else the root disk."""
    user_data = user_data_of(template)
    if "localStorage" in user_data and "RAID0" in user_data and machine.instance_store_gb:
        return machine.instance_store_gb * 10**9 // 2**30
    sizes = [m.get("Ebs", {}).get("VolumeSize") for m in template.get("BlockDeviceMappings", [])]
    return next((size for size in sizes if size), disk_size or _DEFAULT_DISK_GIB)


def user_data_of(template: dict[str, Any]) -> str:
    """Return a launch template's user data for cloud-init, decoded."""
    return base64.b64decode(template.get("UserData") or "").decode(errors="replace")


def _mig(user_data: str) -> tuple[str, int] | None:
    """Return the partitions of each GPU that infra/aws/mig.sh, in the user data, would create."""
    match = _MIG.search(user_data)
    return (match[1], int(match[2])) if match else None
