"""Grant the deploy role its rights in IAM: to the platform's roles, its nodes' instance profile, clusters' OIDC providers.

IAM has no key that tells a tag given with the making from one given later. Roles and profiles are bound by their names too.
"""

from __future__ import annotations

from collections.abc import Sequence

from bootstrap.bounds import MADE_OURS, OURS
from infra.aws.account import Account
from spec.iam_policy import Statement, allow
from spec.names import dns_suffix
from spec.versions import PROJECT

_NAMED_BY_THE_ENGINE = (
    "addons-ebs-csi",
    "client-keys-reader",
    "cluster",
    "cluster-autoscaler-controller",
    "cluster-vpc-cni",
    "collector-xray",
    "container-insights-agent",
    "container-logs-sender",
    "karpenter-controller",
    "keda-operator",
    "load-balancer-controller",
    "monitoring-*",
    "network-flow-logs",
    "nodes",
    "plan-builder-writer",
    "runner",
    "worker",
    "worker-scaling-keda",
)
"""The program adds `-role` or `-role-pods`, the engine a hyphen and seven characters."""
_NAMED_BY_THE_PROGRAM = ("model-reader",)
"""After the cluster's name and the region."""
_NAMED_BY_THE_PROGRAM_BEFORE = ("alertmanager", "worker")
"""Of pods that had their role by IRSA: an upgrade from such a release deletes them."""
_PROFILES = ("karpenter-nodes-*",)
_PASSED_TO = (
    "codebuild.amazonaws.com",
    "ec2.amazonaws.com",
    "ec2.amazonaws.com.cn",
    "eks.amazonaws.com",
    "pods.eks.amazonaws.com",
    "vpc-flow-logs.amazonaws.com",
)
_LUSTRE_READS_S3 = "s3.data-source.lustre.fsx.amazonaws.com"
_SERVICES = (
    "autoscaling.amazonaws.com",
    "eks.amazonaws.com",
    "eks-nodegroup.amazonaws.com",
    "elasticloadbalancing.amazonaws.com",
    "fsx.amazonaws.com",
    _LUSTRE_READS_S3,
    "spot.amazonaws.com",
)
"""Those that make a role of their own in the account when they are first used."""


def role_names(account: Account) -> list[str]:
    """Return patterns of the names of the roles that the platform makes in the account's region."""
    return [
        *(f"{name}-role-*" for name in _NAMED_BY_THE_ENGINE),
        *_after_the_region(account, _NAMED_BY_THE_PROGRAM),
    ]


def _after_the_region(account: Account, purposes: Sequence[str]) -> list[str]:
    return [f"triton-*-{account.region}-{purpose}" for purpose in purposes]


def identity(account: Account) -> list[Statement]:
    """Allow making roles and identity providers, and changing ours; never the workflows' own roles."""
    roles = [_arn(account, f"role/{name}") for name in role_names(account)]
    before = [_arn(account, f"role/{name}") for name in _after_the_region(account, _NAMED_BY_THE_PROGRAM_BEFORE)]
    return [
        allow(["iam:CreateRole", "iam:TagRole"], roles, sid="MakeRoles", condition=MADE_OURS),
        allow(
            [
                "iam:AttachRolePolicy",
                "iam:DeleteRole",
                "iam:DeleteRolePolicy",
                "iam:DetachRolePolicy",
                "iam:PutRolePolicy",
                "iam:TagRole",
                "iam:UntagRole",
                "iam:UpdateAssumeRolePolicy",
                "iam:UpdateRole",
                "iam:UpdateRoleDescription",
            ],
            [*roles, *before],
            sid="ChangeOurRoles",
            condition=OURS,
        ),
        _not_itself(account),
        # By names alone: AWS advises against tags in a bound of this action, whose results are not reliable.
        allow(
            ["iam:PassRole"],
            roles,
            sid="PassOurRoles",
            condition={"StringEquals": {"iam:PassedToService": list(_PASSED_TO)}},
        ),
        *_providers(account),
    ]


def _not_itself(account: Account) -> Statement:
    """Deny all of it for the workflows' own two roles, whose tag is the same: who deploys does not give itself more."""
    return {
        "Sid": "NotItself",
        "Effect": "Deny",
        "Action": [
            "iam:AttachRolePolicy",
            "iam:CreatePolicyVersion",
            "iam:DeletePolicy",
            "iam:DeleteRole",
            "iam:DeleteRolePolicy",
            "iam:DetachRolePolicy",
            "iam:PassRole",
            "iam:PutRolePolicy",
            "iam:SetDefaultPolicyVersion",
            "iam:TagRole",
            "iam:UntagRole",
            "iam:UpdateAssumeRolePolicy",
            "iam:UpdateRole",
        ],
        "Resource": [
            _arn(account, f"{kind}/{PROJECT}-{role}*") for kind in ("role", "policy") for role in ("preview", "deploy")
        ],
    }


def profiles(account: Account) -> list[Statement]:
    """Allow the profiles by which instances of Karpenter take their role."""
    profiles = [_arn(account, f"instance-profile/{name}") for name in _PROFILES]
    return [
        allow(["iam:CreateInstanceProfile", "iam:TagInstanceProfile"], profiles, sid="MakeProfiles", condition=MADE_OURS),
        allow(
            [
                "iam:AddRoleToInstanceProfile",
                "iam:DeleteInstanceProfile",
                "iam:RemoveRoleFromInstanceProfile",
                "iam:TagInstanceProfile",
                "iam:UntagInstanceProfile",
            ],
            profiles,
            sid="ChangeOurProfiles",
            condition=OURS,
        ),
    ]


def _providers(account: Account) -> list[Statement]:
    """Bind identity providers to our tag: EKS chooses their names, so nothing else tells ours from another cluster's."""
    providers = [_arn(account, f"oidc-provider/oidc.eks.{account.region}.{dns_suffix(account.partition)}/*")]
    return [
        allow(
            ["iam:CreateOpenIDConnectProvider", "iam:TagOpenIDConnectProvider"],
            providers,
            sid="MakeProviders",
            condition=MADE_OURS,
        ),
        allow(
            [
                "iam:AddClientIDToOpenIDConnectProvider",
                "iam:DeleteOpenIDConnectProvider",
                "iam:RemoveClientIDFromOpenIDConnectProvider",
                "iam:TagOpenIDConnectProvider",
                "iam:UntagOpenIDConnectProvider",
                "iam:UpdateOpenIDConnectProviderThumbprint",
            ],
            providers,
            sid="ChangeOurProviders",
            condition=OURS,
        ),
    ]


def services_own_roles(account: Account) -> list[Statement]:
    """Allow the roles that services make when first used; apart from `identity`, which would be too long with it."""
    own = _arn(account, "role/aws-service-role")
    return [
        allow(
            ["iam:CreateServiceLinkedRole"],
            [f"{own}/*"],
            sid="ServicesOwnRoles",
            condition={"StringEquals": {"iam:AWSServiceName": list(_SERVICES)}},
        ),
        # FSx for Lustre gives its role the bucket with the rights of whoever links them.
        allow(
            ["iam:AttachRolePolicy", "iam:PutRolePolicy"],
            [f"{own}/{_LUSTRE_READS_S3}/*"],
            sid="LustreReadsBuckets",
        ),
    ]


def _arn(account: Account, resource: str) -> str:
    return f"arn:{account.partition}:iam::{account.id}:{resource}"
