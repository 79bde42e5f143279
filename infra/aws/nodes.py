"""Node groups: one for cluster services, one per GPU pool, and the role that their instances take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from infra.aws import mig
from infra.aws.account import Account
from infra.aws.launch import LaunchTemplateArgs, Reservation, launch_template
from infra.aws.mig import MigLayout
from spec import gpu_pool
from spec.catalog import INSTANCE_TYPES
from spec.gpu_pool import POOL_LABEL, Taint
from spec.iam_policy import service_trust
from spec.settings.gpu import GpuPool
from spec.settings.nodes import SYSTEM_GROUP_NAME, SystemGroup

_CAPACITY_TYPES = {
    "on-demand": "ON_DEMAND",
    "spot": "SPOT",
    "reservation": "ON_DEMAND",
    "capacity-block": "CAPACITY_BLOCK",
}
_BASELINE_THROUGHPUT_MIBS = 125
"""What gp3 includes in its price. Every GPU type of the catalogue unpacks images onto its instance store."""


@dataclass(frozen=True)
class ClusterFacts:
    """What a node group has to know of its cluster."""

    name: pulumi.Output[str]
    security_group_id: pulumi.Output[str]
    kubernetes_version: str
    ami_release: str


@dataclass(frozen=True)
class Scaling:
    """Nodes of a group. `desired` is how many there are, or, with `autoscaled`, how many it begins with."""

    min: int
    desired: int
    max: int
    autoscaled: bool = False
    """cluster-autoscaler changes `desired`, and this program leaves it alone."""


@dataclass(frozen=True)
class NodeGroupArgs:
    label: str
    """The group's short name, unique in the cluster; the value of `POOL_LABEL` on its nodes."""
    cluster_name: str
    """Known before the cluster exists; for tags."""
    cluster: ClusterFacts
    role_arn: pulumi.Input[str]
    subnet_ids: tuple[pulumi.Input[str], ...]
    instance_types: tuple[str, ...]
    capacity: str
    scaling: Scaling
    disk_gib: int
    labels: Mapping[str, str]
    tags: Mapping[str, str]
    taints: tuple[Taint, ...] = ()
    advertised: Mapping[str, str] | None = None
    """Resources for the scale-from-zero template; None: the group never is at zero."""
    reservation_id: str | None = None
    efa: bool = False
    mig: MigLayout | None = None


class NodeGroup(pulumi.ComponentResource):
    """A managed node group with a launch template of its own."""

    node_group_name: pulumi.Output[str]

    def __init__(self, name: str, args: NodeGroupArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("triton:nodes:NodeGroup", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        hardware = INSTANCE_TYPES[args.instance_types[0]]
        template = launch_template(f"{name}-template", self._template_args(name, args), child)
        group = aws.eks.NodeGroup(
            f"{name}-group",
            cluster_name=args.cluster.name,
            node_role_arn=args.role_arn,
            subnet_ids=list(args.subnet_ids),
            ami_type=hardware.ami_type,
            version=args.cluster.kubernetes_version,
            release_version=args.cluster.ami_release,
            capacity_type=_CAPACITY_TYPES[args.capacity],
            # A Capacity Block is of one type, and EKS wants that one in the template instead of here.
            instance_types=None if args.capacity == "capacity-block" else list(args.instance_types),
            scaling_config=aws.eks.NodeGroupScalingConfigArgs(
                min_size=args.scaling.min, desired_size=args.scaling.desired, max_size=args.scaling.max
            ),
            update_config=aws.eks.NodeGroupUpdateConfigArgs(
                max_unavailable=1,
                # By default EKS launches new nodes first, up to two per zone and beyond `max`. GPU nodes may not be there
                # to surge onto, and nobody wants six more of them for a new AMI: there the old node goes first.
                update_strategy="MINIMAL" if hardware.gpus else "DEFAULT",
            ),
            node_repair_config=aws.eks.NodeGroupNodeRepairConfigArgs(enabled=True),
            labels=dict(args.labels),
            taints=[
                aws.eks.NodeGroupTaintArgs(key=taint.key, value=taint.value, effect=taint.eks_effect)
                for taint in args.taints
            ],
            launch_template=aws.eks.NodeGroupLaunchTemplateArgs(
                id=template.id, version=template.latest_version.apply(lambda version: str(int(version)))
            ),
            tags={**args.tags, "Name": f"{args.cluster_name}-{args.label}"},
            opts=pulumi.ResourceOptions(
                parent=self, ignore_changes=["scalingConfig.desiredSize"] if args.scaling.autoscaled else None
            ),
        )
        if args.advertised is not None:
            self._template_tags(name, args, args.advertised, group)
        self.node_group_name = group.node_group_name
        self.register_outputs({"nodeGroupName": self.node_group_name})

    def _template_args(self, name: str, args: NodeGroupArgs) -> LaunchTemplateArgs:
        types = [INSTANCE_TYPES[instance_type] for instance_type in args.instance_types]
        local_nvme = all(instance_type.nvme_gib > 0 for instance_type in types)
        reservation = None
        if args.reservation_id is not None:
            block_type = args.instance_types[0] if args.capacity == "capacity-block" else None
            reservation = Reservation(args.reservation_id, block_instance_type=block_type)
        placement_group = None
        if args.efa and args.reservation_id is None:
            # EFA is worth its name only between instances that stand close to each other. Reserved capacity stands where
            # it was reserved, and EC2 refuses to launch it into a group that it was not reserved in.
            placement_group = aws.ec2.PlacementGroup(
                f"{name}-placement",
                strategy="cluster",
                tags=args.tags,
                opts=pulumi.ResourceOptions(parent=self),
            ).name
        return LaunchTemplateArgs(
            instance_name=f"{args.cluster_name}-{args.label}",
            disk_gib=args.disk_gib,
            disk_throughput_mibs=_BASELINE_THROUGHPUT_MIBS,
            max_pods=min(instance_type.max_pods for instance_type in types),
            local_nvme=local_nvme,
            tags=args.tags,
            reservation=reservation,
            efa_interfaces=min(instance_type.efa_interfaces for instance_type in types) if args.efa else 0,
            security_group_id=args.cluster.security_group_id if args.efa else None,
            placement_group=placement_group,
            mig=args.mig,
        )

    def _template_tags(
        self, name: str, args: NodeGroupArgs, advertised: Mapping[str, str], group: aws.eks.NodeGroup
    ) -> None:
        # EKS keeps a group's tags to itself: what the autoscaler reads has to be put on the Auto Scaling group.
        scaling_group = group.resources[0].autoscaling_groups[0].name
        for key, value in gpu_pool.template_tags(args.labels, args.taints, advertised).items():
            topic, _, subject = key.removeprefix("k8s.io/cluster-autoscaler/node-template/").partition("/")
            aws.autoscaling.Tag(
                f"{name}-{topic}-{subject.replace('/', '-')}",
                autoscaling_group_name=scaling_group,
                tag=aws.autoscaling.TagTagArgs(key=key, value=value, propagate_at_launch=False),
                opts=pulumi.ResourceOptions(parent=self),
            )


@dataclass(frozen=True)
class NodesArgs:
    account: Account
    cluster_name: str
    cluster: ClusterFacts
    subnet_ids: Mapping[str, pulumi.Output[str]]
    """Private subnets, by zone."""
    system: SystemGroup
    pools: tuple[GpuPool, ...]
    """Those that are node groups: none where Karpenter starts the nodes."""
    autoscaled: bool
    """cluster-autoscaler changes how many nodes each group has."""
    tags: Mapping[str, str]


class Nodes(pulumi.ComponentResource):
    """All node groups of a cluster."""

    role_arn: pulumi.Output[str]
    role_name: pulumi.Output[str]
    system: NodeGroup
    """What cluster services run on, whether or not the GPU pools find capacity."""

    def __init__(self, name: str, args: NodesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("triton:nodes:Nodes", name, None, opts)
        role, granted = self._role(name, args)
        # A node that starts before its role has the permissions fails to join and is not tried again.
        ready = pulumi.ResourceOptions(parent=self, depends_on=granted)
        self.role_arn, self.role_name = role.arn, role.name
        self.system = NodeGroup(
            f"{name}-system",
            NodeGroupArgs(
                label=SYSTEM_GROUP_NAME,
                cluster_name=args.cluster_name,
                cluster=args.cluster,
                role_arn=role.arn,
                subnet_ids=tuple(args.subnet_ids.values()),
                instance_types=args.system.instance_types,
                capacity="on-demand",
                scaling=Scaling(args.system.min, args.system.desired, args.system.max, args.autoscaled),
                disk_gib=args.system.disk_gib,
                labels={POOL_LABEL: SYSTEM_GROUP_NAME},
                tags=args.tags,
            ),
            opts=ready,
        )
        for pool in args.pools:
            NodeGroup(f"{name}-pool-{pool.name}", self._pool_args(pool, role.arn, args), opts=ready)
        self.register_outputs({"roleArn": self.role_arn})

    @staticmethod
    def _pool_args(pool: GpuPool, role_arn: pulumi.Output[str], args: NodesArgs) -> NodeGroupArgs:
        zones = pool.zones or tuple(args.subnet_ids)
        return NodeGroupArgs(
            label=pool.name,
            cluster_name=args.cluster_name,
            cluster=args.cluster,
            role_arn=role_arn,
            subnet_ids=tuple(args.subnet_ids[zone] for zone in zones),
            instance_types=pool.instance_types,
            capacity=pool.capacity,
            scaling=Scaling(pool.min, pool.desired, pool.max, args.autoscaled),
            disk_gib=pool.disk_gib,
            labels=gpu_pool.labels(pool),
            tags=args.tags,
            taints=(gpu_pool.GPU_TAINT,),
            advertised=gpu_pool.advertised(pool),
            reservation_id=pool.reservation_id,
            efa=pool.efa,
            mig=mig.layout(pool.sharing),
        )

    def _role(self, name: str, args: NodesArgs) -> tuple[aws.iam.Role, list[pulumi.Resource]]:
        """The role of the instances. The vpc-cni has a role of its own, so nodes cannot move addresses about."""
        child = pulumi.ResourceOptions(parent=self)
        role = aws.iam.Role(
            f"{name}-role",
            description=f"Nodes of {args.cluster_name}",
            assume_role_policy=service_trust("ec2.amazonaws.com"),
            tags={**args.tags, "Name": f"{args.cluster_name}-nodes"},
            opts=child,
        )
        granted: list[pulumi.Resource] = [
            aws.iam.RolePolicyAttachment(
                f"{name}-{policy}",
                role=role.name,
                policy_arn=args.account.managed_policy(policy),
                opts=child,
            )
            for policy in (
                "AmazonEKSWorkerNodePolicy",
                "AmazonEC2ContainerRegistryPullOnly",
                "AmazonSSMManagedInstanceCore",
            )
        ]
        return role, granted
