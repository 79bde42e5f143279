"""Launch templates: how a node starts, before EKS configures it."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws
import yaml

from infra.aws.mig import MigLayout, boot_script
from spec.names import MODEL_CACHE_PATH, TRITON_USER

_BOUNDARY = "//"
MODEL_CACHE_SCRIPT = f"#!/bin/bash\ninstall -d -o {TRITON_USER} -g {TRITON_USER} -m 0750 {MODEL_CACHE_PATH}\n"
"""Creates the folder in which pods share releases. The pods run as this user.

It runs before nodeadm, which copies the kubelet's folder with its owners to the instance-store array and mounts that in its
place (`setup-local-disks` of https://github.com/awslabs/amazon-eks-ami/tree/81fec2e895854f599974fe4d3d72f61c0a9aaffa).
"""


@dataclass(frozen=True)
class Reservation:
    """Capacity that is paid for in advance."""

    id: str
    block_instance_type: str | None = None
    """The one instance type of a Capacity Block for ML; None for an on-demand capacity reservation."""


@dataclass(frozen=True)
class LaunchTemplateArgs:
    instance_name: str
    disk_gib: int
    disk_throughput_mibs: int
    max_pods: int
    local_nvme: bool
    """The instances have an instance store, to be used for images and pods' emptyDir volumes."""
    tags: Mapping[str, str]
    parallel_image_pull: bool = False
    """Fetch and unpack the layers of an image in parallel."""
    reservation: Reservation | None = None
    mig: MigLayout | None = None
    """How the GPUs are partitioned before the node joins; None without MIG."""
    model_cache: bool = False
    """Pods share model releases in a folder of the node."""


def launch_template(name: str, args: LaunchTemplateArgs, opts: pulumi.ResourceOptions) -> aws.ec2.LaunchTemplate:
    """Register a template for a managed node group: IMDSv2 only, encrypted gp3, tagged instances and volumes."""
    named = {**args.tags, "Name": args.instance_name}
    start = user_data(
        args.max_pods,
        args.local_nvme,
        args.mig,
        parallel_image_pull=args.parallel_image_pull,
        model_cache=args.model_cache,
    )
    block_type = args.reservation.block_instance_type if args.reservation is not None else None
    return aws.ec2.LaunchTemplate(
        name,
        description=f"Nodes of {args.instance_name}",
        update_default_version=True,
        metadata_options=aws.ec2.LaunchTemplateMetadataOptionsArgs(
            http_endpoint="enabled",
            http_tokens="required",
            # One hop: only the node itself. A pod with access to the metadata service would have the node's role.
            http_put_response_hop_limit=1,
        ),
        block_device_mappings=[
            aws.ec2.LaunchTemplateBlockDeviceMappingArgs(
                device_name="/dev/xvda",
                ebs=aws.ec2.LaunchTemplateBlockDeviceMappingEbsArgs(
                    volume_type="gp3",
                    volume_size=args.disk_gib,
                    throughput=args.disk_throughput_mibs,
                    # With the account's EBS key. A key of ours would need a grant for the Auto Scaling service role. An
                    # empty account does not have that role yet, and KMS refuses policies with a missing role.
                    encrypted="true",
                    delete_on_termination="true",
                ),
            )
        ],
        # The provider's default tags do not apply to resources that Auto Scaling launches.
        tag_specifications=[
            aws.ec2.LaunchTemplateTagSpecificationArgs(resource_type=kind, tags=named)
            for kind in ("instance", "volume", "network-interface")
        ],
        user_data=base64.b64encode(start.encode()).decode(),
        tags=named,
        capacity_reservation_specification=_capacity_reservation(args.reservation),
        # A Capacity Block is a separate market, and EKS requires its one instance type here.
        instance_type=block_type,
        instance_market_options=(
            aws.ec2.LaunchTemplateInstanceMarketOptionsArgs(market_type="capacity-block") if block_type is not None else None
        ),
        opts=opts,
    )


def node_config(spec: Mapping[str, object], *, parallel_image_pull: bool) -> dict[str, object]:
    """Return a NodeConfig of nodeadm (AL2023) with `spec` and, if requested, the feature gate of parallel pulls."""
    gates = {"featureGates": {"FastImagePull": True}} if parallel_image_pull else {}
    return {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": {**spec, **gates}}


def user_data(
    max_pods: int,
    local_nvme: bool,
    mig: MigLayout | None = None,
    *,
    parallel_image_pull: bool = False,
    model_cache: bool = False,
) -> str:
    """Return the node configuration for nodeadm (AL2023), and the scripts that cloud-init runs before it.

    EKS adds the cluster's address and certificate.
    """
    spec: dict[str, object] = {"kubelet": {"config": {"maxPods": max_pods}}}
    if local_nvme:
        # One array of all instance-store disks, with the folders of kubelet and containerd on it. So the model cache (an
        # emptyDir) and the 20 GiB image are read from NVMe instead of the network volume.
        spec["instance"] = {"localStorage": {"strategy": "RAID0"}}
    scripts = [*([boot_script(mig)] if mig is not None else []), *([MODEL_CACHE_SCRIPT] if model_cache else [])]
    return mime_archive(node_config(spec, parallel_image_pull=parallel_image_pull), scripts)


def mime_archive(config: Mapping[str, object], scripts: Sequence[str]) -> str:
    """Return user data with a NodeConfig and with scripts that run as root before it is applied."""
    parts = [("application/node.eks.aws", yaml.safe_dump(config, sort_keys=True))]
    parts += [('text/x-shellscript; charset="us-ascii"', script) for script in scripts]
    lines = ["MIME-Version: 1.0", f'Content-Type: multipart/mixed; boundary="{_BOUNDARY}"', ""]
    for kind, content in parts:
        lines += [f"--{_BOUNDARY}", f"Content-Type: {kind}", "", content.rstrip(), ""]
    return "\n".join([*lines, f"--{_BOUNDARY}--", ""])


def _capacity_reservation(
    reservation: Reservation | None,
) -> aws.ec2.LaunchTemplateCapacityReservationSpecificationArgs | None:
    if reservation is None:
        return None
    return aws.ec2.LaunchTemplateCapacityReservationSpecificationArgs(
        capacity_reservation_target=aws.ec2.LaunchTemplateCapacityReservationSpecificationCapacityReservationTargetArgs(
            capacity_reservation_id=reservation.id
        )
    )
