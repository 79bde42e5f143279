"""Grant the deploy role its IAM permissions, for roles, instance profiles and OIDC providers.

It creates and changes roles only with the boundary that `bootstrap` creates for the stack (`spec.boundary`). It attaches
only AWS's policies that the platform uses, and passes only the stacks' roles.
"""

from __future__ import annotations

from bootstrap.bounds import Condition, Scope
from spec.iam_policy import Statement, allow
from spec.names import dns_suffix, permissions_boundary
from spec.versions import PROJECT

OLDER_ROLES = (
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
    "monitoring-[a-z]+",
    "network-flow-logs",
    "nodes",
    "plan-builder-writer",
    "runner",
    "worker",
    "worker-scaling-keda",
)
"""Purposes of roles from before roles had the stack's path: `-role` or `-role-pods` follows, then seven characters."""
_POLICIES = (
    "AmazonEBSCSIDriverEKSClusterScopedPolicy",
    "AmazonEC2ContainerRegistryPullOnly",
    "AmazonEKSClusterPolicy",
    "AmazonEKSWorkerNodePolicy",
    "AmazonEKS_CNI_Policy",
    "AmazonSSMManagedInstanceCore",
)
"""AWS's managed policies of the platform's roles."""
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
"""Services that create a service-linked role in the account at their first use."""


def identity(scope: Scope) -> list[Statement]:
    """Allow creating roles with the boundary, and changing the stacks' own roles."""
    bounded = _bounded(scope)
    return [
        allow(["iam:CreateRole"], scope.roles, sid="MakeRoles", condition={**scope.requested, **bounded}),
        allow(["iam:TagRole"], scope.roles, sid="TagNewRoles", condition=scope.claimed),
        *_changes(scope, scope.roles, "Our", bounded),
        _never(scope),
        {
            "Sid": "NeverWithoutBoundary",
            "Effect": "Deny",
            "Action": ["iam:DeleteRolePermissionsBoundary"],
            "Resource": ["*"],
        },
        *_providers(scope),
    ]


def older(scope: Scope) -> list[Statement]:
    """Allow changing roles from before roles had the stack's path, by name. They get the boundary."""
    return _changes(scope, list(scope.older_roles), "Older", _bounded(scope))


def _bounded(scope: Scope) -> Condition:
    return {"ArnEquals": {"iam:PermissionsBoundary": scope.boundaries}}


def _changes(scope: Scope, roles: list[str], which: str, bounded: Condition) -> list[Statement]:
    policies = [scope.account.managed_policy(name) for name in _POLICIES]
    return [
        allow(
            [
                "iam:DeleteRole",
                "iam:DeleteRolePolicy",
                "iam:DetachRolePolicy",
                "iam:TagRole",
                "iam:UntagRole",
                "iam:UpdateAssumeRolePolicy",
                "iam:UpdateRole",
                "iam:UpdateRoleDescription",
            ],
            roles,
            sid=f"Change{which}Roles",
            condition=scope.owned,
        ),
        # `iam:PermissionsBoundary` is the role's current boundary; for PutRolePermissionsBoundary it is the new one.
        allow(
            ["iam:PutRolePermissionsBoundary", "iam:PutRolePolicy"],
            roles,
            sid=f"Bound{which}Roles",
            condition={**scope.owned, **bounded},
        ),
        allow(
            ["iam:AttachRolePolicy"],
            roles,
            sid=f"Attach{which}Roles",
            condition={**scope.owned, "ArnEquals": {**bounded["ArnEquals"], "iam:PolicyARN": policies}},
        ),
        # Limited only by names: AWS advises against tag conditions for this action, because their results are not reliable.
        allow(
            ["iam:PassRole"],
            roles,
            sid=f"Pass{which}Roles",
            condition={"StringEquals": {"iam:PassedToService": list(_PASSED_TO)}},
        ),
    ]


def _never(scope: Scope) -> Statement:
    """Deny changes of the workflows' own roles and of boundaries, whatever other permissions the role may get."""
    return {
        "Sid": "NeverItselfNorBoundaries",
        "Effect": "Deny",
        "Action": [
            "iam:AttachRolePolicy",
            "iam:CreatePolicyVersion",
            "iam:DeletePolicy",
            "iam:DeletePolicyVersion",
            "iam:DeleteRole",
            "iam:DeleteRolePolicy",
            "iam:DetachRolePolicy",
            "iam:PassRole",
            "iam:PutRolePermissionsBoundary",
            "iam:PutRolePolicy",
            "iam:SetDefaultPolicyVersion",
            "iam:TagRole",
            "iam:UntagRole",
            "iam:UpdateAssumeRolePolicy",
            "iam:UpdateRole",
        ],
        "Resource": [
            *(
                scope.account.iam_arn(f"{kind}/{PROJECT}-{role}*")
                for kind in ("role", "policy")
                for role in ("preview", "deploy")
            ),
            scope.account.iam_arn(f"policy/{permissions_boundary('*')}"),
        ],
    }


def profiles(scope: Scope) -> list[Statement]:
    """Allow the profiles that give Karpenter's instances their role."""
    profiles = [scope.account.iam_arn(f"instance-profile/{name}") for name in _PROFILES]
    return [
        allow(["iam:CreateInstanceProfile"], profiles, sid="MakeProfiles", condition=scope.requested),
        allow(["iam:TagInstanceProfile"], profiles, sid="TagNewProfiles", condition=scope.claimed),
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
            condition=scope.owned,
        ),
    ]


def _providers(scope: Scope) -> list[Statement]:
    """Limit identity providers by our tags. EKS chooses their names, so only tags distinguish ours from another
    cluster's."""
    account = scope.account
    providers = [scope.account.iam_arn(f"oidc-provider/oidc.eks.{account.region}.{dns_suffix(account.partition)}/*")]
    return [
        allow(["iam:CreateOpenIDConnectProvider"], providers, sid="MakeProviders", condition=scope.requested),
        allow(["iam:TagOpenIDConnectProvider"], providers, sid="TagNewProviders", condition=scope.claimed),
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
            condition=scope.owned,
        ),
    ]


def services_own_roles(scope: Scope) -> list[Statement]:
    """Allow the roles that services create at first use. With them, `identity` would be too long."""
    own = scope.account.iam_arn("role/aws-service-role")
    return [
        allow(
            ["iam:CreateServiceLinkedRole"],
            [f"{own}/*"],
            sid="ServicesOwnRoles",
            condition={"StringEquals": {"iam:AWSServiceName": list(_SERVICES)}},
        ),
        # FSx for Lustre gives its role access to the bucket with the caller's permissions.
        allow(
            ["iam:AttachRolePolicy", "iam:PutRolePolicy"],
            [f"{own}/{_LUSTRE_READS_S3}/*"],
            sid="LustreReadsBuckets",
        ),
    ]
