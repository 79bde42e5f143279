"""The identity of the Jobs that build TensorRT plans: `modelctl build-plans` prints them, and nothing here starts one."""

from __future__ import annotations

import pulumi
import pulumi_kubernetes as k8s

from infra.aws.account import Account
from infra.aws.cluster_access import ClusterAccess
from infra.aws.identity import WorkloadRole, WorkloadRoleArgs, irsa_annotations
from infra.aws.storage import ModelBucket
from spec.iam_policy import allow, document
from spec.names import PLAN_BUILDER, PLANS_PREFIX, RELEASES_PREFIX


class PlanBuilder(pulumi.ComponentResource):
    """A service account in Triton's namespace, which `opts.depends_on` has to name, and its role."""

    def __init__(
        self, name: str, cluster: ClusterAccess, models: ModelBucket, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("triton:serving:PlanBuilder", name, None, opts)
        stack = cluster.stack
        role = WorkloadRole(
            f"{name}-writer",
            cluster,
            WorkloadRoleArgs(
                description=f"TensorRT plans for {stack.cluster_name}",
                service_account=PLAN_BUILDER,
                identity="irsa",
                policy=writer_policy(stack.account, models.arn, models.key_arn),
            ),
            pulumi.ResourceOptions(parent=self),
        )
        k8s.core.v1.ServiceAccount(
            f"{name}-account",
            metadata=k8s.meta.v1.ObjectMetaArgs(
                name=PLAN_BUILDER.name, namespace=PLAN_BUILDER.namespace, annotations=irsa_annotations(role.arn)
            ),
            automount_service_account_token=False,
            opts=cluster.in_cluster(self),
        )
        self.register_outputs({})


def writer_policy(account: Account, bucket_arn: pulumi.Input[str], key_arn: pulumi.Input[str]) -> pulumi.Output[str]:
    """Return the rights that building takes: read releases, and write plans beside them, never into a release.

    `s3:ListBucket` is what makes S3 say 404 rather than 403 for a release that is not there.
    """
    return pulumi.Output.all(bucket_arn, key_arn).apply(
        lambda arns: document(
            allow(["s3:ListBucket"], [arns[0]], sid="FindReleases"),
            allow(["s3:GetObject"], [f"{arns[0]}/{RELEASES_PREFIX}*"], sid="ReadReleases"),
            allow(["s3:PutObject"], [f"{arns[0]}/{PLANS_PREFIX}*"], sid="WritePlans"),
            allow(
                ["kms:Decrypt", "kms:GenerateDataKey"],
                [arns[1]],
                sid="UseTheKeyThroughS3",
                condition={"StringEquals": {"kms:ViaService": account.host("s3")}},
            ),
        )
    )
