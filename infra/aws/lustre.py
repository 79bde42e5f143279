"""FSx for Lustre in front of the model bucket: one copy of a release, read from S3 once and mounted by every pod.

The bucket remains the source: the file system follows its changes and never writes to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from infra.aws.cluster_access import ClusterAccess
from infra.aws.storage import ModelBucket
from spec.names import RELEASES_PREFIX
from spec.settings import Settings
from spec.settings.fsx import Fsx
from spec.settings.gpu import GpuPool

# Lustre's own port, and the ports from which its servers call clients back (FSx user guide, "File system access control with
# Amazon VPC").
_PORTS = ((988, 988), (1018, 1023))
_MAINTENANCE = "7:09:00"
"""When AWS may patch the file system, during which reads wait: Sunday, 9:00 UTC."""
_FOLLOWED = ("NEW", "CHANGED", "DELETED")


@dataclass(frozen=True)
class LustreMount:
    """The names with which a node mounts the file system."""

    file_system_id: pulumi.Output[str]
    dns_name: pulumi.Output[str]
    mount_name: pulumi.Output[str]


class LustreCache(pulumi.ComponentResource):
    """The file system, linked to the releases of the bucket, and its network access from the nodes.

    `opts.depends_on` has to name the bucket, because AWS reads it when they are linked. Components that mount the file
    system depend on this component, so the link exists before them and is deleted after them.

    The file system is in one `zone`. Nodes of other zones can use it, slower and with costs for cross-zone traffic. It is
    encrypted with the bucket's key, because it is a copy of the bucket.
    """

    mount: LustreMount

    def __init__(
        self,
        name: str,
        cluster: ClusterAccess,
        fsx: Fsx,
        *,
        zone: str,
        key_arn: pulumi.Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("triton:lustre:LustreCache", name, None, opts)
        self._name = name
        self._cluster = cluster
        self._child = pulumi.ResourceOptions(parent=self)
        stack = cluster.stack
        group, rules = self._security_group()
        file_system = aws.fsx.LustreFileSystem(
            f"{name}-file-system",
            deployment_type="PERSISTENT_2",
            storage_type="SSD",
            file_system_type_version="2.15",
            storage_capacity=fsx.storage_gib,
            per_unit_storage_throughput=fsx.throughput_mbs_per_tib,
            subnet_ids=cluster.node_subnet_ids[zone],
            security_group_ids=[group.id],
            kms_key_id=key_arn,
            # All data is in S3, and FSx makes no backups of a file system that is linked to a bucket.
            automatic_backup_retention_days=0,
            skip_final_backup=True,
            weekly_maintenance_start_time=_MAINTENANCE,
            tags=stack.named(f"{stack.cluster_name}-models"),
            # FSx refuses a file system whose security group does not allow Lustre.
            opts=pulumi.ResourceOptions(parent=self, depends_on=rules),
        )
        aws.fsx.DataRepositoryAssociation(
            f"{name}-releases",
            file_system_id=file_system.id,
            file_system_path=f"/{RELEASES_PREFIX.rstrip('/')}",
            data_repository_path=f"s3://{stack.model_bucket}/{RELEASES_PREFIX}",
            # Later changes arrive as events, but existing objects have none.
            batch_import_meta_data_on_create=True,
            s3=aws.fsx.DataRepositoryAssociationS3Args(
                auto_import_policy=aws.fsx.DataRepositoryAssociationS3AutoImportPolicyArgs(events=list(_FOLLOWED))
            ),
            tags=stack.named(f"{stack.cluster_name}-releases"),
            # A path and a prefix can have only one association at a time.
            opts=pulumi.ResourceOptions(parent=self, delete_before_replace=True),
        )
        self.mount = LustreMount(file_system.id, file_system.dns_name, file_system.mount_name)
        self.register_outputs({"fileSystemId": file_system.id})

    def _security_group(self) -> tuple[aws.ec2.SecurityGroup, list[pulumi.Resource]]:
        """Return the file system's security group and its rules. They allow only Lustre with the nodes and among its
        servers."""
        cluster, stack = self._cluster, self._cluster.stack
        group = aws.ec2.SecurityGroup(
            f"{self._name}-security-group",
            vpc_id=cluster.vpc_id,
            description="Lustre between the nodes and the file system of the models",
            tags=stack.named(f"{stack.cluster_name}-models-lustre"),
            opts=self._child,
        )
        nodes = cluster.security_group_id
        ways = {"nodes": (group.id, nodes), "servers": (group.id, group.id)}
        rules: list[pulumi.Resource] = []
        for label, (own, other) in ways.items():
            rules += self._rules(aws.vpc.SecurityGroupIngressRule, f"from-{label}", own, other)
            rules += self._rules(aws.vpc.SecurityGroupEgressRule, f"to-{label}", own, other)
        # EKS allows all egress of the nodes' group, but ingress only from the group itself.
        rules += self._rules(aws.vpc.SecurityGroupIngressRule, "to-nodes-in", nodes, group.id)
        return group, rules

    def _rules(
        self,
        kind: type[aws.vpc.SecurityGroupIngressRule] | type[aws.vpc.SecurityGroupEgressRule],
        label: str,
        group_id: pulumi.Input[str],
        other_id: pulumi.Input[str],
    ) -> list[pulumi.Resource]:
        return [
            kind(
                f"{self._name}-{label}-{first}",
                security_group_id=group_id,
                referenced_security_group_id=other_id,
                description="Lustre",
                ip_protocol="tcp",
                from_port=first,
                to_port=last,
                tags=self._cluster.stack.tags,
                opts=self._child,
            )
            for first, last in _PORTS
        ]


def model_cache(cluster: ClusterAccess, settings: Settings, models: ModelBucket, zones: Sequence[str]) -> LustreCache | None:
    """Register the model file system if the stack has one. It is in the first zone of `zones` in which Triton may run."""
    if settings.models.fsx is None:
        return None
    groups = [fleet.stack.triton_nodes for fleet in settings.each_fleet]
    confined = [set(group.zones) for group in groups if isinstance(group, GpuPool) and group.zones is not None]
    # A zone in which all fleets run, if there is one; otherwise a zone of the first fleet that is limited to zones.
    together = set.intersection(*confined) if confined else set(zones)
    zone = next(zone for zone in zones if zone in (together or confined[0]))
    opts = pulumi.ResourceOptions(depends_on=[models])
    return LustreCache("model-cache", cluster, settings.models.fsx, zone=zone, key_arn=models.key_arn, opts=opts)
