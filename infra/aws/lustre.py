"""FSx for Lustre in front of the model bucket: one copy of a release, read from S3 once and mounted by every pod.

The bucket stays the source: the file system follows what changes there and never writes to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from spec.names import RELEASES_PREFIX
from spec.settings.fsx import Fsx

# Lustre's own port, and those from which its servers call clients back (FSx user guide, "File system access control with
# Amazon VPC").
_PORTS = ((988, 988), (1018, 1023))
_FOLLOWED = ("NEW", "CHANGED", "DELETED")


@dataclass(frozen=True)
class LustreCacheArgs:
    cluster_name: str
    vpc_id: pulumi.Input[str]
    subnet_id: pulumi.Input[str]
    """Of the one zone that the file system is in. Nodes of other zones reach it, slower and at the price of traffic
    between zones."""
    nodes_security_group_id: pulumi.Input[str]
    bucket_name: str
    key_arn: pulumi.Input[str]
    """What the file system is encrypted with: the key of the bucket, because it is a copy of it."""
    fsx: Fsx
    tags: Mapping[str, str]


class LustreCache(pulumi.ComponentResource):
    """The file system, linked to the releases of the bucket, and the way to it from the nodes.

    Give `opts.depends_on` the bucket: AWS looks into it when they are linked. Whoever mounts it depends on this component,
    so that the link is there before them and goes after them.
    """

    file_system_id: pulumi.Output[str]
    dns_name: pulumi.Output[str]
    mount_name: pulumi.Output[str]

    def __init__(self, name: str, args: LustreCacheArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("triton:lustre:LustreCache", name, None, opts)
        self._name = name
        self._args = args
        self._child = pulumi.ResourceOptions(parent=self)
        group, rules = self._security_group()
        file_system = aws.fsx.LustreFileSystem(
            f"{name}-file-system",
            deployment_type="PERSISTENT_2",
            storage_type="SSD",
            file_system_type_version="2.15",
            storage_capacity=args.fsx.storage_gib,
            per_unit_storage_throughput=args.fsx.throughput_mbs_per_tib,
            subnet_ids=args.subnet_id,
            security_group_ids=[group.id],
            kms_key_id=args.key_arn,
            # All of it is in S3, and FSx makes no backups of a file system that is linked to a bucket.
            automatic_backup_retention_days=0,
            skip_final_backup=True,
            weekly_maintenance_start_time=args.fsx.maintenance,
            tags={**args.tags, "Name": f"{args.cluster_name}-models"},
            # FSx refuses a file system whose group does not let Lustre through.
            opts=pulumi.ResourceOptions(parent=self, depends_on=rules),
        )
        aws.fsx.DataRepositoryAssociation(
            f"{name}-releases",
            file_system_id=file_system.id,
            file_system_path=f"/{RELEASES_PREFIX.rstrip('/')}",
            data_repository_path=f"s3://{args.bucket_name}/{RELEASES_PREFIX}",
            # Later changes come by events; what is there already has none.
            batch_import_meta_data_on_create=True,
            s3=aws.fsx.DataRepositoryAssociationS3Args(
                auto_import_policy=aws.fsx.DataRepositoryAssociationS3AutoImportPolicyArgs(events=list(_FOLLOWED))
            ),
            tags={**args.tags, "Name": f"{args.cluster_name}-releases"},
            # A path and a prefix have one association at a time.
            opts=pulumi.ResourceOptions(parent=self, delete_before_replace=True),
        )
        self.file_system_id = file_system.id
        self.dns_name = file_system.dns_name
        self.mount_name = file_system.mount_name
        self.register_outputs({"fileSystemId": self.file_system_id})

    def _security_group(self) -> tuple[aws.ec2.SecurityGroup, list[pulumi.Resource]]:
        """A group of the file system's own: Lustre, both ways, with the nodes and among its servers, and nothing else."""
        args = self._args
        group = aws.ec2.SecurityGroup(
            f"{self._name}-security-group",
            vpc_id=args.vpc_id,
            description="Lustre between the nodes and the file system of the models",
            tags={**args.tags, "Name": f"{args.cluster_name}-models-lustre"},
            opts=self._child,
        )
        nodes = args.nodes_security_group_id
        ways = {"nodes": (group.id, nodes), "servers": (group.id, group.id)}
        rules: list[pulumi.Resource] = []
        for label, (own, other) in ways.items():
            rules += self._rules(aws.vpc.SecurityGroupIngressRule, f"from-{label}", own, other)
            rules += self._rules(aws.vpc.SecurityGroupEgressRule, f"to-{label}", own, other)
        # EKS lets everything out of the nodes' group, and in only what comes from within it.
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
                tags=self._args.tags,
                opts=self._child,
            )
            for first, last in _PORTS
        ]
