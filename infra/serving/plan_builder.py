"""The identity of the Jobs that build TensorRT plans. `modelctl build-plans` prints the Jobs; the program starts none."""

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
    """A service account in Triton's namespace and its role. `opts.depends_on` has to name the namespace."""

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
    """Return the permissions to build plans: read releases, and write plans next to them, never into a release.

    With `s3:ListBucket`, S3 answers 404 instead of 403 for a release that does not exist.
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
