"""Read the instances that Karpenter launched from EC2 (moto), with the kubelet settings in their user data.

Karpenter puts a NodeConfig of nodeadm into the user data of a launch template, with the cluster, labels, taints and number
of pods: https://awslabs.github.io/amazon-eks-ami/nodeadm/. A NodeClass's own user data is in earlier parts of the archive.
"""

from __future__ import annotations

import email
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from twin.cluster.node_groups import AwsReader, disk_gib, user_data_of
from twin.cluster.node_objects import LaunchedInstance

_NODE_CONFIG = "application/node.eks.aws"
_LABELS_FLAG = "--node-labels="
_POOL_TAG = "karpenter.sh/nodepool"
_TEMPLATE_TAG = "aws:ec2launchtemplate:{}"
_IMAGE_NAME = re.compile(r"amazon-eks-node-al2023-.*?-(1\.\d+)-v\d{8}")


@dataclass(frozen=True)
class KubeletSettings:
    """The merged NodeConfigs of an instance."""

    cluster: str
    labels: Mapping[str, str]
    taints: list[dict[str, str]]
    max_pods: int | None


class InstanceReader:
    """Reads the instances of one region of one AWS endpoint."""

    def __init__(self, aws: AwsReader) -> None:
        self._aws = aws
        self._ec2 = aws.ec2
        self._known: dict[str, LaunchedInstance] = {}

    def settled(self) -> bool:
        """Return whether instances that AWS does not know were really terminated: `AwsReader.settled`."""
        return self._aws.settled()

    def running(self) -> list[LaunchedInstance]:
        """Return every running instance of a NodePool. Raises botocore's errors if AWS does not answer."""
        wanted = [{"Name": "tag-key", "Values": [_POOL_TAG]}, {"Name": "instance-state-name", "Values": ["running"]}]
        pages = self._ec2.get_paginator("describe_instances").paginate(Filters=wanted)
        found = [one for page in pages for reservation in page["Reservations"] for one in reservation["Instances"]]
        self._known = {one["InstanceId"]: self._known.get(one["InstanceId"]) or self._read(one) for one in found}
        return list(self._known.values())

    def _read(self, described: Mapping[str, Any]) -> LaunchedInstance:
        tags = {tag["Key"]: tag["Value"] for tag in described["Tags"]}
        (version,) = self._ec2.describe_launch_template_versions(
            LaunchTemplateId=tags[_TEMPLATE_TAG.format("id")], Versions=[tags[_TEMPLATE_TAG.format("version")]]
        )["LaunchTemplateVersions"]
        template = version["LaunchTemplateData"]
        (image,) = self._ec2.describe_images(ImageIds=[described["ImageId"]])["Images"]
        machine, told = self._aws.machine(described["InstanceType"]), kubelet_settings(user_data_of(template))
        return LaunchedInstance(
            id=described["InstanceId"],
            name=described["PrivateDnsName"],
            cluster=told.cluster,
            zone=described["Placement"]["AvailabilityZone"],
            machine=machine,
            at=described["LaunchTime"].timestamp(),
            labels=told.labels,
            taints=told.taints,
            max_pods=told.max_pods,
            kubernetes_version=_version(image["Name"]),
            disk_gib=disk_gib(template, None, machine),
        )


def kubelet_settings(user_data: str) -> KubeletSettings:
    """Return the kubelet settings in a node's user data. If a setting occurs twice, the last one counts, as in nodeadm."""
    cluster, max_pods = "", None
    labels: dict[str, str] = {}
    taints: list[dict[str, str]] = []
    for document in _node_configs(user_data):
        spec = document.get("spec") or {}
        kubelet = spec.get("kubelet") or {}
        config = kubelet.get("config") or {}
        cluster = (spec.get("cluster") or {}).get("name", cluster)
        max_pods = config.get("maxPods", max_pods)
        taints = config.get("registerWithTaints", taints)
        for flag in kubelet.get("flags") or ():
            if flag.startswith(_LABELS_FLAG):
                pairs = flag.removeprefix(_LABELS_FLAG).strip('"').split(",")
                labels.update(pair.partition("=")[::2] for pair in pairs)
    return KubeletSettings(cluster, labels, taints, max_pods)


def _node_configs(user_data: str) -> Iterator[dict[str, Any]]:
    for part in email.message_from_string(user_data).walk():
        if part.get_content_type() == _NODE_CONFIG:
            yield yaml.safe_load(part.get_payload(decode=True) or b"")  # type: ignore[arg-type]


def _version(image: str) -> str:
    """Return the minor version of the kubelet in an EKS image."""
    found = _IMAGE_NAME.fullmatch(image)
    if found is None:
        raise ValueError(f"the image {image} is none of EKS for AL2023, so what its kubelet is nobody can tell")
    return found[1]
