"""IAM roles for workloads in the cluster: one role per purpose, each for the service account of its pods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pulumi
import pulumi_aws as aws

from infra.aws.cluster_access import ClusterAccess
from infra.aws.role import role
from infra.aws.stack import Stack
from spec.iam_policy import pod_identity_trust, service_account_trust
from spec.names import ServiceAccount, workload_role


@dataclass(frozen=True)
class WorkloadRoleArgs:
    """Arguments of a workload role. `identity` is how the pods get the role (docs/decisions/pod-identity.md).

    `associated`: another component or an EKS add-on creates the association. `others` are further service accounts of the
    same namespace that may assume the role, only with `irsa`.
    """

    description: str
    service_account: ServiceAccount
    policy: pulumi.Input[str] | None = None
    managed_policy_arns: tuple[str, ...] = ()
    identity: Literal["irsa", "pod-identity", "associated"] = "pod-identity"
    others: tuple[str, ...] = ()
    purpose: str | None = None
    """Only for a role whose ARN is needed before it exists (`known_role_arn`). None: the engine names the role."""


class WorkloadRole(pulumi.ComponentResource):
    """The role of one service account in a cluster, its permissions and, with `pod-identity`, its association.

    Pods that depend on this component still need `infra.platform.pod_identity`, because an association takes effect late.
    """

    arn: pulumi.Output[str]

    def __init__(
        self, name: str, cluster: ClusterAccess, args: WorkloadRoleArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("triton:identity:WorkloadRole", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        account = args.service_account
        created = role(
            # A different name than with IRSA: an upgrade deletes that role last, so pods of the old template keep it until
            # then.
            f"{name}-role-pods" if args.identity == "pod-identity" else f"{name}-role",
            cluster.stack,
            role_name=None if args.purpose is None else _known_name(cluster.stack, args.purpose),
            description=args.description,
            trust=_trust(cluster, args),
            tags={**cluster.stack.named(name), "service-account": f"{account.namespace}/{account.name}"},
            opts=child,
        )
        granted: list[pulumi.Resource] = [
            aws.iam.RolePolicyAttachment(
                f"{name}-{policy_arn.rsplit('/', maxsplit=1)[-1]}",
                role=created.name,
                policy_arn=policy_arn,
                opts=child,
            )
            for policy_arn in args.managed_policy_arns
        ]
        if args.policy is not None:
            granted.append(aws.iam.RolePolicy(f"{name}-policy", role=created.name, policy=args.policy, opts=child))
        # Consumers of the ARN may use it at once, so it is known only when the permissions exist too.
        self.arn = pulumi.Output.all(created.arn, *[grant.urn for grant in granted]).apply(lambda resolved: str(resolved[0]))
        if args.identity == "pod-identity":
            associate(f"{name}-association", cluster, account, self.arn, child)
        self.register_outputs({"arn": self.arn})


def known_role_arn(stack: Stack, purpose: str) -> str:
    """Return the ARN of the role for a `purpose`. As plain text it is shown in a preview, where outputs are unknown."""
    return stack.account.iam_arn(f"role/{_known_name(stack, purpose)}")


def associate(
    name: str, cluster: ClusterAccess, account: ServiceAccount, role_arn: pulumi.Input[str], opts: pulumi.ResourceOptions
) -> aws.eks.PodIdentityAssociation:
    """Register the association by which EKS gives a role to the pods of a service account."""
    return aws.eks.PodIdentityAssociation(
        name,
        # Not the name that is known before, because only this output makes the association wait for the cluster.
        cluster_name=cluster.name,
        namespace=account.namespace,
        service_account=account.name,
        role_arn=role_arn,
        tags=dict(cluster.stack.tags),
        opts=opts,
    )


def irsa_annotations(role_arn: pulumi.Input[str]) -> dict[str, pulumi.Input[str]]:
    """Return the annotations of a service account whose pods assume the role."""
    return {
        "eks.amazonaws.com/role-arn": role_arn,
        # Without it the token goes to the global STS in us-east-1, which has no endpoint in the VPC.
        "eks.amazonaws.com/sts-regional-endpoints": "true",
    }


def _known_name(stack: Stack, purpose: str) -> str:
    return workload_role(stack.cluster_name, stack.region, purpose)


def _trust(cluster: ClusterAccess, args: WorkloadRoleArgs) -> pulumi.Input[str]:
    account = args.service_account
    if args.identity != "irsa":
        return pod_identity_trust(cluster.arn, account.namespace, account.name)
    return pulumi.Output.all(cluster.oidc.arn, cluster.oidc.issuer).apply(
        lambda known: service_account_trust(known[0], known[1], account.namespace, account.name, *args.others)
    )
