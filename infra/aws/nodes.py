"""Node groups: one for cluster services and one per GPU pool, and the role of their instances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pulumi
import pulumi_aws as aws

from infra.aws import mig
from infra.aws.cluster_access import ClusterAccess
from infra.aws.launch import LaunchTemplateArgs, Reservation, launch_template
from infra.aws.role import role
from infra.aws.stack import Stack
from spec import gpu_pool
from spec.catalog import max_pods
from spec.gpu_pool import POOL_LABEL
from spec.iam_policy import service_trust
from spec.names import dns_suffix
from spec.settings.gpu import GpuPool
from spec.settings.model import Settings
from spec.settings.nodes import SYSTEM_GROUP_NAME, SystemGroup

_CAPACITY_TYPES = {
    "on-demand": "ON_DEMAND",
    "spot": "SPOT",
    "reservation": "ON_DEMAND",
    "capacity-block": "CAPACITY_BLOCK",
}
_BASELINE_THROUGHPUT_MIBS = 125
"""The throughput that the price of gp3 includes. Every GPU type in the catalogue unpacks images onto its instance store."""


class NodeGroup(pulumi.ComponentResource):
    """A managed node group with its own launch template: the system group or a GPU pool.

    With `autoscaled`, cluster-autoscaler changes the number of nodes and this program leaves it unchanged.
    """

    node_group_name: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        cluster: ClusterAccess,
        group: SystemGroup | GpuPool,
        role_arn: pulumi.Input[str],
        *,
        autoscaled: bool,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("triton:nodes:NodeGroup", name, None, opts)
        self._name = name
        pool = group if isinstance(group, GpuPool) else None
        label = pool.name if pool is not None else SYSTEM_GROUP_NAME
        instance_name = f"{cluster.stack.cluster_name}-{label}"
        capacity = pool.capacity if pool is not None else "on-demand"
        labels = gpu_pool.labels(pool) if pool is not None else {POOL_LABEL: SYSTEM_GROUP_NAME}
        taints = (gpu_pool.GPU_TAINT,) if pool is not None else ()
        zones = (pool.zones if pool is not None else None) or tuple(cluster.node_subnet_ids)
        hardware = group.types[0]
        template = launch_template(
            f"{name}-template",
            self._template_args(instance_name, cluster, group),
            pulumi.ResourceOptions(parent=self),
        )
        node_group = aws.eks.NodeGroup(
            f"{name}-group",
            cluster_name=cluster.name,
            node_role_arn=role_arn,
            subnet_ids=[cluster.node_subnet_ids[zone] for zone in zones],
            ami_type=hardware.ami_type,
            version=cluster.kubernetes_version,
            release_version=cluster.pins.ami_release,
            capacity_type=_CAPACITY_TYPES[capacity],
            # A Capacity Block has one type, and EKS requires it in the launch template instead of here.
            instance_types=None if capacity == "capacity-block" else list(group.instance_types),
            scaling_config=aws.eks.NodeGroupScalingConfigArgs(
                min_size=group.min, desired_size=group.desired, max_size=group.max
            ),
            update_config=aws.eks.NodeGroupUpdateConfigArgs(
                max_unavailable=1,
                # By default EKS launches new nodes first, up to two per zone and beyond `max`. GPU capacity may not exist
                # for that, and six extra GPU nodes for a new AMI are too expensive. So the old GPU node is removed first.
                update_strategy="MINIMAL" if hardware.gpus else "DEFAULT",
            ),
            node_repair_config=aws.eks.NodeGroupNodeRepairConfigArgs(enabled=True),
            labels=labels,
            taints=[
                aws.eks.NodeGroupTaintArgs(key=taint.key, value=taint.value, effect=taint.eks_effect) for taint in taints
            ],
            launch_template=aws.eks.NodeGroupLaunchTemplateArgs(
                id=template.id, version=template.latest_version.apply(lambda version: str(int(version)))
            ),
            tags=cluster.stack.named(instance_name),
            opts=pulumi.ResourceOptions(parent=self, ignore_changes=["scalingConfig.desiredSize"] if autoscaled else None),
        )
        if pool is not None:
            self._template_tags(gpu_pool.template_tags(labels, taints, gpu_pool.advertised(pool)), node_group)
        self.node_group_name = node_group.node_group_name
        self.register_outputs({"nodeGroupName": self.node_group_name})

    def _template_args(self, instance_name: str, cluster: ClusterAccess, group: SystemGroup | GpuPool) -> LaunchTemplateArgs:
        types = group.types
        args = LaunchTemplateArgs(
            instance_name=instance_name,
            disk_gib=group.disk_gib,
            disk_throughput_mibs=_BASELINE_THROUGHPUT_MIBS,
            max_pods=max_pods(types),
            local_nvme=all(instance_type.nvme_gib > 0 for instance_type in types),
            tags=cluster.stack.tags,
        )
        if not isinstance(group, GpuPool):
            return args
        reservation = None
        if group.reservation_id is not None:
            block_type = group.instance_types[0] if group.capacity == "capacity-block" else None
            reservation = Reservation(group.reservation_id, block_instance_type=block_type)
        return replace(
            args,
            parallel_image_pull=group.image_pull == "soci",
            reservation=reservation,
            mig=mig.layout(group.sharing),
            model_cache=group.model_cache_gib is not None,
        )

    def _template_tags(self, tags: Mapping[str, str], group: aws.eks.NodeGroup) -> None:
        # EKS does not copy a group's tags, so the tags for the autoscaler have to be set on the Auto Scaling group.
        scaling_group = group.resources[0].autoscaling_groups[0].name
        for key, value in tags.items():
            topic, _, subject = key.removeprefix("k8s.io/cluster-autoscaler/node-template/").partition("/")
            aws.autoscaling.Tag(
                f"{self._name}-{topic}-{subject.replace('/', '-')}",
                autoscaling_group_name=scaling_group,
                tag=aws.autoscaling.TagTagArgs(key=key, value=value, propagate_at_launch=False),
                opts=pulumi.ResourceOptions(parent=self),
            )


class Nodes(pulumi.ComponentResource):
    """All node groups of a cluster: the system group, and one for each GPU pool unless Karpenter starts the nodes.

    The groups are created after the resources in `after`, but their role earlier, together with the cluster. Other services
    know a new role only some seconds after IAM, and the provider does not retry CreateNodegroup.
    """

    role_arn: pulumi.Output[str]
    role_name: pulumi.Output[str]
    system: NodeGroup
    """The group of cluster services, which does not depend on GPU capacity."""

    def __init__(self, name: str, cluster: ClusterAccess, settings: Settings, *, after: Sequence[pulumi.Resource]) -> None:
        super().__init__("triton:nodes:Nodes", name)
        node_role, granted = self._role(name, cluster.stack)
        self.role_arn, self.role_name = node_role.arn, node_role.name
        # A node that starts before its role has the permissions fails to join and does not retry.
        ready = pulumi.ResourceOptions(parent=self, depends_on=[*granted, *after])
        autoscaled = settings.node_autoscaler == "cluster-autoscaler"
        system = settings.nodes.system
        self.system = NodeGroup(f"{name}-system", cluster, system, node_role.arn, autoscaled=autoscaled, opts=ready)
        for pool in settings.gpu.pools if settings.node_autoscaler != "karpenter" else ():
            NodeGroup(f"{name}-pool-{pool.name}", cluster, pool, node_role.arn, autoscaled=autoscaled, opts=ready)
        self.register_outputs({"roleArn": self.role_arn})

    def _role(self, name: str, stack: Stack) -> tuple[aws.iam.Role, list[pulumi.Resource]]:
        """Return the role of the instances and its policies. The vpc-cni has its own role, so nodes cannot move
        addresses."""
        child = pulumi.ResourceOptions(parent=self)
        created = role(
            f"{name}-role",
            stack,
            description=f"Nodes of {stack.cluster_name}",
            trust=service_trust(f"ec2.{dns_suffix(stack.account.partition)}"),
            tags=stack.named(f"{stack.cluster_name}-nodes"),
            opts=child,
        )
        granted: list[pulumi.Resource] = [
            aws.iam.RolePolicyAttachment(
                f"{name}-{policy}",
                role=created.name,
                policy_arn=stack.account.managed_policy(policy),
                opts=child,
            )
            for policy in (
                "AmazonEKSWorkerNodePolicy",
                "AmazonEC2ContainerRegistryPullOnly",
                "AmazonSSMManagedInstanceCore",
            )
        ]
        return created, granted
