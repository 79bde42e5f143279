"""Grant the deploy role its permissions in EC2.

Most calls that create a resource also name its parent, a VPC or a subnet. AWS checks both: the new resource may be created,
and the existing one must have our tag.
"""

from __future__ import annotations

from bootstrap.bounds import Scope
from infra.aws.account import Account
from spec.iam_policy import Statement, allow
from spec.versions import PROJECT

_MADE_ALONE = (
    "AllocateAddress",
    "CreateInternetGateway",
    "CreateLaunchTemplate",
    "CreateRouteTable",
    "CreateSecurityGroup",
    "CreateSubnet",
)
_MADE_FROM_OTHERS = (
    "AuthorizeSecurityGroupEgress",
    "AuthorizeSecurityGroupIngress",
    "CreateFlowLogs",
    "CreateNatGateway",
    "CreateVpcEndpoint",
)
_CHANGED = (
    "AssociateRouteTable",
    "AttachInternetGateway",
    "CreateLaunchTemplateVersion",
    "CreateRoute",
    "CreateTags",
    "DeleteFlowLogs",
    "DeleteInternetGateway",
    "DeleteLaunchTemplate",
    "DeleteNatGateway",
    "DeleteRoute",
    "DeleteRouteTable",
    "DeleteSecurityGroup",
    "DeleteSubnet",
    "DeleteTags",
    "DeleteVpc",
    "DeleteVpcEndpoints",
    "DetachInternetGateway",
    "DisassociateAddress",
    "DisassociateRouteTable",
    "ModifyLaunchTemplate",
    "ModifySecurityGroupRules",
    "ModifySubnetAttribute",
    "ModifyVpcAttribute",
    "ModifyVpcEndpoint",
    "ReleaseAddress",
    "ReplaceRoute",
    "RevokeSecurityGroupEgress",
    "RevokeSecurityGroupIngress",
)


def network(scope: Scope) -> list[Statement]:
    """Allow creating networks and launch templates, and changing the environment's own."""
    account = scope.account
    return [
        allow(["ec2:CreateVpc"], _kinds(account, "vpc"), sid="MakeNetworks"),
        # These calls also name a parent of another kind, a VPC: see `ChangeOurs`.
        allow(
            _actions(_MADE_ALONE),
            _kinds(
                account,
                "elastic-ip",
                "internet-gateway",
                "launch-template",
                "route-table",
                "security-group",
                "subnet",
            ),
            sid="MakeAlone",
        ),
        allow(
            _actions(_MADE_FROM_OTHERS),
            _kinds(account, "natgateway", "security-group-rule", "vpc-endpoint", "vpc-flow-log"),
            sid="MakeFromOthers",
        ),
        allow(
            _actions((*_CHANGED, *_MADE_FROM_OTHERS, "CreateRouteTable", "CreateSecurityGroup", "CreateSubnet")),
            [account.arn("ec2", "*")],
            sid="ChangeOurs",
            condition=scope.owned,
        ),
        # A later tag is a change. Without this condition, permission to tag could make any resource ours.
        allow(
            ["ec2:CreateTags"],
            [account.arn("ec2", "*")],
            sid="TagWhatIsMade",
            condition={
                "StringEquals": {
                    "ec2:CreateAction": ["CreateVpc", *_MADE_ALONE, *_MADE_FROM_OTHERS, "RunInstances"],
                }
            },
        ),
        # An interface endpoint with private DNS: AWS associates a hosted zone of its own with the VPC, with the caller's
        # permissions. See the dependent actions of CreateVpcEndpoint in
        # https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2.html.
        allow(
            ["route53:AssociateVPCWithHostedZone"],
            [f"arn:{account.partition}:route53:::hostedzone/*"],
            sid="NameEndpoints",
        ),
        *_launching(scope),
        *_default_group(scope),
        *_clusters_groups(scope),
    ]


def _launching(scope: Scope) -> list[Statement]:
    """Allow launches only with our templates: EKS tests a node group's template with the caller's permissions."""
    account = scope.account
    templates = _kinds(account, "launch-template")
    return [
        allow(["ec2:RunInstances"], templates, sid="LaunchByOurTemplates", condition=scope.owned),
        allow(
            ["ec2:RunInstances"],
            [
                *_kinds(
                    account,
                    "capacity-reservation",
                    "instance",
                    "key-pair",
                    "network-interface",
                    "security-group",
                    "subnet",
                    "volume",
                ),
                *(f"arn:{account.partition}:ec2:{account.region}::{kind}/*" for kind in ("image", "snapshot")),
            ],
            sid="LaunchWithATemplate",
            # A cluster's group, which has no tag `project`, belongs to one of ours or of the existing clusters.
            condition={
                "ArnLike": {"ec2:LaunchTemplate": templates},
                "StringEqualsIfExists": {"aws:ResourceTag/aws:eks:cluster-name": [*scope.named("{}"), *scope.clusters]},
            },
        ),
        # Subnets and groups of an existing VPC lack our tags, so only this statement excludes other environments' resources.
        {
            "Sid": "NotWithOtherEnvironments",
            "Effect": "Deny",
            "Action": ["ec2:RunInstances"],
            "Resource": ["*"],
            "Condition": {
                "StringEquals": {"aws:ResourceTag/project": PROJECT},
                "StringNotEquals": {"aws:ResourceTag/environment": scope.environment},
            },
        },
    ]


def _default_group(scope: Scope) -> list[Statement]:
    """Allow emptying and tagging a VPC's default security group. AWS creates it without a tag or a name of ours.

    No AWS condition key distinguishes it from another owner's group without a tag `project` (docs/github.md). The groups
    that EKS and the load balancer controller create lack that tag too, but have other tags.
    """
    groups = _kinds(scope.account, "security-group")
    makers = ("project", "aws:eks:cluster-name", "elbv2.k8s.aws/cluster")
    unclaimed = {"Null": {f"aws:ResourceTag/{key}": "true" for key in makers}}
    return [
        allow(
            ["ec2:RevokeSecurityGroupEgress", "ec2:RevokeSecurityGroupIngress"],
            groups,
            sid="EmptyDefaultGroups",
            condition=unclaimed,
        ),
        allow(
            ["ec2:CreateTags"],
            groups,
            sid="TagDefaultGroups",
            condition={
                **scope.requested,
                **unclaimed,
                "StringLike": {"aws:RequestTag/Name": scope.named("{}-default-locked")},
            },
        ),
    ]


def _clusters_groups(scope: Scope) -> list[Statement]:
    """Allow ingress rules in a cluster's security group, which EKS creates without the tag `project`.

    EKS tags it with the cluster's name under a key that begins with `aws:`, which only AWS can set:
    https://docs.aws.amazon.com/eks/latest/userguide/sec-group-reqs.html.
    """
    return [
        allow(
            ["ec2:AuthorizeSecurityGroupIngress", "ec2:ModifySecurityGroupRules", "ec2:RevokeSecurityGroupIngress"],
            _kinds(scope.account, "security-group"),
            sid="LetIntoOurClusters",
            condition={"StringEquals": {"aws:ResourceTag/aws:eks:cluster-name": [*scope.named("{}"), *scope.clusters]}},
        ),
    ]


def _actions(names: tuple[str, ...]) -> list[str]:
    return sorted(f"ec2:{name}" for name in names)


def _kinds(account: Account, *kinds: str) -> list[str]:
    return [account.arn("ec2", f"{kind}/*") for kind in kinds]
