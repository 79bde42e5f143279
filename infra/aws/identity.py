"""IAM roles for workloads in the cluster: one role per purpose, each for exactly one service account."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from infra.aws.account import Account
from spec.iam_policy import allow, document, pod_identity_trust, service_account_trust
from spec.names import ServiceAccount


@dataclass(frozen=True)
class OidcProvider:
    """The cluster's OIDC provider in IAM."""

    arn: pulumi.Output[str]
    issuer: pulumi.Output[str]
    """The URL without its scheme."""


@dataclass(frozen=True)
class WorkloadRoleArgs:
    description: str
    service_account: ServiceAccount
    trust: pulumi.Input[str]
    """Made by `irsa_trust` or `pod_identity`."""
    tags: Mapping[str, str]
    managed_policy_arns: tuple[str, ...] = ()
    policy: pulumi.Input[str] | None = None
    role_name: str | None = None
    """Only for a role whose ARN has to be known before it exists (`role_arn`); None: named by the engine."""


class WorkloadRole(pulumi.ComponentResource):
    """The role of one service account, and what it may do."""

    arn: pulumi.Output[str]

    def __init__(self, name: str, args: WorkloadRoleArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("triton:identity:WorkloadRole", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        role = aws.iam.Role(
            f"{name}-role",
            name=args.role_name,
            description=args.description,
            assume_role_policy=args.trust,
            tags={
                **args.tags,
                "Name": name,
                "service-account": f"{args.service_account.namespace}/{args.service_account.name}",
            },
            opts=child,
        )
        granted: list[pulumi.Resource] = [
            aws.iam.RolePolicyAttachment(
                f"{name}-{policy_arn.rsplit('/', maxsplit=1)[-1]}",
                role=role.name,
                policy_arn=policy_arn,
                opts=child,
            )
            for policy_arn in args.managed_policy_arns
        ]
        if args.policy is not None:
            granted.append(aws.iam.RolePolicy(f"{name}-policy", role=role.name, policy=args.policy, opts=child))
        # Whoever is told the ARN may use it at once: it is known only when the permissions are there too.
        self.arn = pulumi.Output.all(role.arn, *[grant.urn for grant in granted]).apply(lambda resolved: str(resolved[0]))
        self.register_outputs({"arn": self.arn})


def role_arn(account: Account, role_name: str) -> str:
    """The ARN that a role of this name has."""
    return f"arn:{account.partition}:iam::{account.id}:role/{role_name}"


def irsa_trust(provider: OidcProvider, account: ServiceAccount) -> pulumi.Output[str]:
    """Trust through the OIDC provider, for workloads whose SDK knows web identity tokens only (Triton's does)."""
    return pulumi.Output.all(provider.arn, provider.issuer).apply(
        lambda known: service_account_trust(known[0], known[1], account.namespace, account.name)
    )


def irsa_annotations(role_arn: pulumi.Input[str]) -> dict[str, pulumi.Input[str]]:
    """What a service account carries so that its pods take the role."""
    return {
        "eks.amazonaws.com/role-arn": role_arn,
        # Without it the token goes to the global STS in us-east-1, which has no endpoint in the VPC.
        "eks.amazonaws.com/sts-regional-endpoints": "true",
    }


def pod_identity(cluster_arn: str, account: ServiceAccount) -> str:
    """Trust through EKS Pod Identity, for workloads with a current SDK."""
    return pod_identity_trust(cluster_arn, account.namespace, account.name)


def model_reader_policy(
    account: Account, bucket_arn: pulumi.Input[str], key_arn: pulumi.Input[str], prefixes: tuple[str, ...]
) -> pulumi.Output[str]:
    """What reading models takes: list the bucket, get what is under `prefixes`, decrypt it through S3 alone.

    `s3:ListBucket` has no prefix condition: Triton calls HeadBucket before every existence check, which carries no
    prefix and would be denied (docs/facts/triton-s3.md#rights).
    """
    return pulumi.Output.all(bucket_arn, key_arn).apply(
        lambda arns: document(
            allow(["s3:ListBucket"], [arns[0]], sid="FindModels"),
            allow(["s3:GetObject"], [f"{arns[0]}/{prefix}*" for prefix in prefixes], sid="ReadReleases"),
            allow(
                ["kms:Decrypt"],
                [arns[1]],
                sid="DecryptThroughS3",
                condition={"StringEquals": {"kms:ViaService": f"s3.{account.region}.amazonaws.com"}},
            ),
        )
    )
