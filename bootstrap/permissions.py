"""What the two roles may do. Every action is named; what an action can be bound to, it is bound to.

Roles and policies that the platform makes are bound by their tag `project`, queues, buckets and log groups by their names.
What has neither when it is made (most of EC2) is bound to the region. Who deploys writes the policies of the platform's
roles: that is as much as those may be given, which is why deployments are approved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from infra.account import Account
from infra.policy import Statement, allow, document
from infra.versions import PROJECT

LOCKS_PREFIX = ".pulumi/locks/"
_OURS = {"StringEquals": {"aws:ResourceTag/project": PROJECT}}
_MADE_OURS = {"StringEquals": {"aws:RequestTag/project": PROJECT}}


@dataclass(frozen=True)
class StateAccess:
    """The ARNs of the state bucket, of its key and of the key of stacks' secrets."""

    bucket_arn: str
    bucket_key_arn: str
    secrets_key_arn: str


def read_state(state: StateAccess) -> str:
    """The policy that reads state: a preview takes no lock and writes nothing."""
    return document(*_read_state(state))


def write_state(state: StateAccess) -> str:
    """The policy that reads and writes state. States are overwritten, never deleted; only locks are."""
    return document(
        *_read_state(state),
        allow(["s3:PutObject"], [f"{state.bucket_arn}/.pulumi/*"], sid="WriteState"),
        allow(["s3:DeleteObject"], [f"{state.bucket_arn}/{LOCKS_PREFIX}*"], sid="Unlock"),
        allow(["kms:GenerateDataKey"], [state.bucket_key_arn], sid="EncryptState"),
        allow(["kms:Encrypt"], [state.secrets_key_arn], sid="EncryptSecrets"),
    )


def _read_state(state: StateAccess) -> list[Statement]:
    return [
        allow(["s3:ListBucket", "s3:GetBucketLocation"], [state.bucket_arn], sid="FindState"),
        allow(["s3:GetObject"], [f"{state.bucket_arn}/.pulumi/*"], sid="ReadState"),
        allow(["kms:Decrypt"], [state.bucket_key_arn, state.secrets_key_arn], sid="Decrypt"),
    ]


def read(account: Account) -> list[Statement]:
    """What a refresh and the program's own questions read. None of it is data: no object, no message, no log line."""
    return [
        allow(
            [
                "autoscaling:DescribeAutoScalingGroups",
                "autoscaling:DescribeTags",
                "ec2:DescribeAddresses",
                "ec2:DescribeAddressesAttribute",
                "ec2:DescribeAvailabilityZones",
                "ec2:DescribeCapacityReservations",
                "ec2:DescribeFlowLogs",
                "ec2:DescribeImages",
                "ec2:DescribeInstances",
                "ec2:DescribeInstanceTypeOfferings",
                "ec2:DescribeInstanceTypes",
                "ec2:DescribeInternetGateways",
                "ec2:DescribeLaunchTemplates",
                "ec2:DescribeLaunchTemplateVersions",
                "ec2:DescribeNatGateways",
                "ec2:DescribeNetworkAcls",
                "ec2:DescribeNetworkInterfaces",
                "ec2:DescribePlacementGroups",
                "ec2:DescribePrefixLists",
                "ec2:DescribeRouteTables",
                "ec2:DescribeSecurityGroupRules",
                "ec2:DescribeSecurityGroups",
                "ec2:DescribeSubnets",
                "ec2:DescribeTags",
                "ec2:DescribeVolumes",
                "ec2:DescribeVpcAttribute",
                "ec2:DescribeVpcEndpoints",
                "ec2:DescribeVpcEndpointServices",
                "ec2:DescribeVpcs",
                "eks:DescribeAddonVersions",
                "eks:DescribeClusterVersions",
                "eks:ListClusters",
                "elasticloadbalancing:DescribeLoadBalancers",
                "elasticloadbalancing:DescribeTargetGroups",
                "elasticloadbalancing:DescribeTags",
                "ce:GetAnomalyMonitors",
                "ce:GetAnomalySubscriptions",
                "ce:ListTagsForResource",
                "cloudwatch:DescribeAlarms",
                "kms:ListAliases",
                "kms:ListKeys",
                "logs:DescribeLogGroups",
                "servicequotas:GetServiceQuota",
                "servicequotas:ListServiceQuotas",
                "sns:GetTopicAttributes",
                "sts:GetCallerIdentity",
                "tag:GetResources",
            ],
            ["*"],
            sid="Describe",
        ),
        allow(
            [
                "eks:DescribeAccessEntry",
                "eks:DescribeAddon",
                "eks:DescribeCluster",
                "eks:DescribeNodegroup",
                "eks:DescribePodIdentityAssociation",
                "eks:DescribeUpdate",
                "eks:ListAccessEntries",
                "eks:ListAddons",
                "eks:ListAssociatedAccessPolicies",
                "eks:ListNodegroups",
                "eks:ListPodIdentityAssociations",
                "eks:ListTagsForResource",
            ],
            [
                account.arn("eks", f"{kind}/*")
                for kind in ("cluster", "nodegroup", "addon", "access-entry", "podidentityassociation")
            ],
            sid="DescribeClusters",
        ),
        allow(
            [
                "iam:GetInstanceProfile",
                "iam:GetOpenIDConnectProvider",
                "iam:GetPolicy",
                "iam:GetPolicyVersion",
                "iam:GetRole",
                "iam:GetRolePolicy",
                "iam:ListAttachedRolePolicies",
                "iam:ListInstanceProfilesForRole",
                "iam:ListInstanceProfileTags",
                "iam:ListPolicyVersions",
                "iam:ListRolePolicies",
                "iam:ListRoleTags",
            ],
            [
                f"arn:{account.partition}:iam::aws:policy/*",
                *(
                    f"arn:{account.partition}:iam::{account.id}:{kind}/*"
                    for kind in ("instance-profile", "oidc-provider", "policy", "role")
                ),
            ],
            sid="ReadIdentities",
        ),
        allow(
            [
                "s3:GetAccelerateConfiguration",
                "s3:GetBucketAcl",
                "s3:GetBucketCORS",
                "s3:GetBucketLocation",
                "s3:GetBucketLogging",
                "s3:GetBucketObjectLockConfiguration",
                "s3:GetBucketOwnershipControls",
                "s3:GetBucketPolicy",
                "s3:GetBucketPublicAccessBlock",
                "s3:GetBucketRequestPayment",
                "s3:GetBucketTagging",
                "s3:GetBucketVersioning",
                "s3:GetBucketWebsite",
                "s3:GetEncryptionConfiguration",
                "s3:GetLifecycleConfiguration",
                "s3:GetReplicationConfiguration",
                "s3:ListBucket",
            ],
            _buckets(account),
            sid="DescribeBuckets",
        ),
        allow(
            ["sqs:GetQueueAttributes", "sqs:GetQueueUrl", "sqs:ListQueueTags"],
            [account.arn("sqs", "*")],
            sid="DescribeQueues",
        ),
        allow(
            ["kms:DescribeKey", "kms:GetKeyPolicy", "kms:GetKeyRotationStatus", "kms:ListResourceTags"],
            [account.arn("kms", "key/*")],
            sid="DescribeKeys",
        ),
        allow(
            [
                "cloudwatch:ListTagsForResource",
                "events:DescribeRule",
                "events:ListTagsForResource",
                "events:ListTargetsByRule",
                "logs:ListTagsForResource",
            ],
            [account.arn("cloudwatch", "alarm:*"), account.arn("events", "rule/*"), account.arn("logs", "log-group:*")],
            sid="DescribeWatching",
        ),
        allow(
            ["budgets:ListTagsForResource", "budgets:ViewBudget"],
            [f"arn:{account.partition}:budgets::{account.id}:budget/*"],
            sid="DescribeBudgets",
        ),
        allow(
            ["ecr:DescribeImages", "ecr:DescribeRepositories"],
            [account.arn("ecr", "repository/*")],
            sid="DescribeImages",
        ),
    ]


def deploy(account: Account) -> dict[str, list[Statement]]:
    """What making, changing and deleting the platform takes beside reading it, by purpose."""
    return {
        "network": _network(account),
        "cluster": _cluster(account),
        "identity": _identity(account),
        "data": _data(account),
        "watching": _watching(account),
    }


def _network(account: Account) -> list[Statement]:
    region: dict[str, Any] = {"StringEquals": {"aws:RequestedRegion": account.region}}
    return [
        allow(
            [
                "ec2:AllocateAddress",
                "ec2:AssociateRouteTable",
                "ec2:AttachInternetGateway",
                "ec2:CreateFlowLogs",
                "ec2:CreateInternetGateway",
                "ec2:CreateLaunchTemplate",
                "ec2:CreateLaunchTemplateVersion",
                "ec2:CreateNatGateway",
                "ec2:CreatePlacementGroup",
                "ec2:CreateRoute",
                "ec2:CreateRouteTable",
                "ec2:CreateSecurityGroup",
                "ec2:CreateSubnet",
                "ec2:CreateTags",
                "ec2:CreateVpc",
                "ec2:CreateVpcEndpoint",
                "ec2:RunInstances",
            ],
            ["*"],
            sid="Make",
            condition=region,
        ),
        allow(
            [
                "ec2:AuthorizeSecurityGroupEgress",
                "ec2:AuthorizeSecurityGroupIngress",
                "ec2:DeleteFlowLogs",
                "ec2:DeleteInternetGateway",
                "ec2:DeleteLaunchTemplate",
                "ec2:DeleteLaunchTemplateVersions",
                "ec2:DeleteNatGateway",
                "ec2:DeletePlacementGroup",
                "ec2:DeleteRoute",
                "ec2:DeleteRouteTable",
                "ec2:DeleteSecurityGroup",
                "ec2:DeleteSubnet",
                "ec2:DeleteTags",
                "ec2:DeleteVpc",
                "ec2:DeleteVpcEndpoints",
                "ec2:DetachInternetGateway",
                "ec2:DisassociateAddress",
                "ec2:DisassociateRouteTable",
                "ec2:ModifyLaunchTemplate",
                "ec2:ModifySecurityGroupRules",
                "ec2:ModifySubnetAttribute",
                "ec2:ModifyVpcAttribute",
                "ec2:ModifyVpcEndpoint",
                "ec2:ReleaseAddress",
                "ec2:ReplaceRoute",
                "ec2:RevokeSecurityGroupEgress",
                "ec2:RevokeSecurityGroupIngress",
            ],
            [account.arn("ec2", "*")],
            sid="ChangeOurs",
            condition=_OURS,
        ),
        # The default security group of a VPC is AWS's own: it has no tag before the program has emptied it.
        allow(
            ["ec2:RevokeSecurityGroupEgress", "ec2:RevokeSecurityGroupIngress"],
            [account.arn("ec2", "security-group/*")],
            sid="EmptyDefaultGroups",
            condition=region,
        ),
    ]


def _cluster(account: Account) -> list[Statement]:
    return [
        allow(["eks:CreateCluster"], [account.arn("eks", "cluster/*")], sid="MakeClusters", condition=_MADE_OURS),
        allow(
            [
                "eks:AssociateAccessPolicy",
                "eks:CreateAccessEntry",
                "eks:CreateAddon",
                "eks:CreateNodegroup",
                "eks:CreatePodIdentityAssociation",
                "eks:DeleteAccessEntry",
                "eks:DeleteAddon",
                "eks:DeleteCluster",
                "eks:DeleteNodegroup",
                "eks:DeletePodIdentityAssociation",
                "eks:DisassociateAccessPolicy",
                "eks:TagResource",
                "eks:UntagResource",
                "eks:UpdateAccessEntry",
                "eks:UpdateAddon",
                "eks:UpdateClusterConfig",
                "eks:UpdateClusterVersion",
                "eks:UpdateNodegroupConfig",
                "eks:UpdateNodegroupVersion",
                "eks:UpdatePodIdentityAssociation",
            ],
            [
                account.arn("eks", f"{kind}/triton-*")
                for kind in ("cluster", "nodegroup", "addon", "access-entry", "podidentityassociation")
            ],
            sid="ChangeOurClusters",
        ),
        allow(
            ["autoscaling:CreateOrUpdateTags", "autoscaling:DeleteTags"],
            [account.arn("autoscaling", "autoScalingGroup:*:autoScalingGroupName/eks-*")],
            sid="TagScalingGroups",
        ),
    ]


def _identity(account: Account) -> list[Statement]:
    roles = f"arn:{account.partition}:iam::{account.id}:role/*"
    policies = f"arn:{account.partition}:iam::{account.id}:policy/*"
    profiles = f"arn:{account.partition}:iam::{account.id}:instance-profile/*"
    providers = f"arn:{account.partition}:iam::{account.id}:oidc-provider/oidc.eks.{account.region}.amazonaws.com/*"
    return [
        allow(["iam:CreateRole", "iam:TagRole"], [roles], sid="MakeRoles", condition=_MADE_OURS),
        allow(
            [
                "iam:AttachRolePolicy",
                "iam:DeleteRole",
                "iam:DeleteRolePolicy",
                "iam:DetachRolePolicy",
                "iam:PutRolePolicy",
                "iam:UntagRole",
                "iam:UpdateAssumeRolePolicy",
                "iam:UpdateRole",
                "iam:UpdateRoleDescription",
            ],
            [roles],
            sid="ChangeOurRoles",
            condition=_OURS,
        ),
        # Not the two roles of the workflows, whose tag is the same: who deploys does not give itself more.
        {
            "Sid": "NotItself",
            "Effect": "Deny",
            "Action": [
                "iam:AttachRolePolicy",
                "iam:CreatePolicyVersion",
                "iam:DeletePolicy",
                "iam:DeleteRole",
                "iam:DeleteRolePolicy",
                "iam:DetachRolePolicy",
                "iam:PutRolePolicy",
                "iam:SetDefaultPolicyVersion",
                "iam:TagRole",
                "iam:UntagRole",
                "iam:UpdateAssumeRolePolicy",
                "iam:UpdateRole",
            ],
            "Resource": [
                f"arn:{account.partition}:iam::{account.id}:{kind}/{PROJECT}-{role}*"
                for kind in ("role", "policy")
                for role in ("preview", "deploy")
            ],
        },
        allow(
            ["iam:PassRole"],
            [roles],
            sid="PassOurRoles",
            condition={
                "StringEquals": {
                    "iam:PassedToService": [
                        "ec2.amazonaws.com",
                        "eks.amazonaws.com",
                        "pods.eks.amazonaws.com",
                        "vpc-flow-logs.amazonaws.com",
                    ],
                }
            },
        ),
        allow(["iam:CreatePolicy", "iam:TagPolicy"], [policies], sid="MakePolicies", condition=_MADE_OURS),
        allow(
            ["iam:CreatePolicyVersion", "iam:DeletePolicy", "iam:DeletePolicyVersion", "iam:UntagPolicy"],
            [policies],
            sid="ChangeOurPolicies",
            condition=_OURS,
        ),
        allow(["iam:CreateInstanceProfile", "iam:TagInstanceProfile"], [profiles], sid="MakeProfiles", condition=_MADE_OURS),
        allow(
            [
                "iam:AddRoleToInstanceProfile",
                "iam:DeleteInstanceProfile",
                "iam:RemoveRoleFromInstanceProfile",
                "iam:UntagInstanceProfile",
            ],
            [profiles],
            sid="ChangeOurProfiles",
            condition=_OURS,
        ),
        allow(
            [
                "iam:AddClientIDToOpenIDConnectProvider",
                "iam:CreateOpenIDConnectProvider",
                "iam:DeleteOpenIDConnectProvider",
                "iam:RemoveClientIDFromOpenIDConnectProvider",
                "iam:TagOpenIDConnectProvider",
                "iam:UntagOpenIDConnectProvider",
                "iam:UpdateOpenIDConnectProviderThumbprint",
            ],
            [providers],
            sid="ClustersIdentityProviders",
        ),
        allow(
            ["iam:CreateServiceLinkedRole"],
            [f"arn:{account.partition}:iam::{account.id}:role/aws-service-role/*"],
            sid="ServicesOwnRoles",
            condition={
                "StringEquals": {
                    "iam:AWSServiceName": [
                        "autoscaling.amazonaws.com",
                        "eks.amazonaws.com",
                        "eks-nodegroup.amazonaws.com",
                        "elasticloadbalancing.amazonaws.com",
                        "spot.amazonaws.com",
                    ]
                }
            },
        ),
    ]


def _data(account: Account) -> list[Statement]:
    buckets = _buckets(account)
    return [
        allow(
            [
                "s3:CreateBucket",
                "s3:DeleteBucket",
                "s3:DeleteBucketPolicy",
                "s3:ListBucketVersions",
                "s3:PutBucketOwnershipControls",
                "s3:PutBucketPolicy",
                "s3:PutBucketPublicAccessBlock",
                "s3:PutBucketTagging",
                "s3:PutBucketVersioning",
                "s3:PutEncryptionConfiguration",
                "s3:PutLifecycleConfiguration",
            ],
            buckets,
            sid="OurBuckets",
        ),
        # Promotion of releases; and the emptying of a bucket that a stack lets go of.
        allow(
            ["s3:DeleteObject", "s3:DeleteObjectVersion", "s3:GetObject", "s3:PutObject"],
            [f"{bucket}/*" for bucket in buckets],
            sid="OurObjects",
        ),
        allow(["kms:CreateKey", "kms:TagResource"], ["*"], sid="MakeKeys", condition=_MADE_OURS),
        allow(
            [
                "kms:CreateAlias",
                "kms:CreateGrant",
                "kms:Decrypt",
                "kms:DeleteAlias",
                "kms:EnableKeyRotation",
                "kms:GenerateDataKey",
                "kms:PutKeyPolicy",
                "kms:ScheduleKeyDeletion",
                "kms:UntagResource",
                "kms:UpdateAlias",
                "kms:UpdateKeyDescription",
            ],
            [account.arn("kms", "key/*")],
            sid="OurKeys",
            condition=_OURS,
        ),
        allow(
            ["kms:CreateAlias", "kms:DeleteAlias", "kms:UpdateAlias"],
            [account.arn("kms", "alias/triton-*")],
            sid="OurAliases",
        ),
        allow(
            [
                "sqs:CreateQueue",
                "sqs:DeleteQueue",
                "sqs:SetQueueAttributes",
                "sqs:TagQueue",
                "sqs:UntagQueue",
            ],
            [account.arn("sqs", "triton-*")],
            sid="OurQueues",
        ),
    ]


def _watching(account: Account) -> list[Statement]:
    budgets = [f"arn:{account.partition}:budgets::{account.id}:budget/triton-*"]
    return [
        allow(
            [
                "logs:AssociateKmsKey",
                "logs:CreateLogGroup",
                "logs:DeleteLogGroup",
                "logs:DeleteRetentionPolicy",
                "logs:DisassociateKmsKey",
                "logs:PutRetentionPolicy",
                "logs:TagResource",
                "logs:UntagResource",
            ],
            [account.arn("logs", "log-group:/aws/*/triton-*")],
            sid="OurLogGroups",
        ),
        allow(
            [
                "cloudwatch:DeleteAlarms",
                "cloudwatch:PutMetricAlarm",
                "cloudwatch:TagResource",
                "cloudwatch:UntagResource",
            ],
            [account.arn("cloudwatch", "alarm:triton-*")],
            sid="OurAlarms",
        ),
        allow(
            [
                "events:DeleteRule",
                "events:PutRule",
                "events:PutTargets",
                "events:RemoveTargets",
                "events:TagResource",
                "events:UntagResource",
            ],
            [account.arn("events", "rule/*")],
            sid="Rules",
        ),
        allow(["budgets:ModifyBudget", "budgets:TagResource", "budgets:UntagResource"], budgets, sid="OurBudgets"),
        allow(
            ["ce:CreateAnomalyMonitor", "ce:CreateAnomalySubscription", "ce:TagResource"],
            ["*"],
            sid="MakeAnomalyAlarms",
        ),
        allow(
            [
                "ce:DeleteAnomalyMonitor",
                "ce:DeleteAnomalySubscription",
                "ce:UntagResource",
                "ce:UpdateAnomalyMonitor",
                "ce:UpdateAnomalySubscription",
            ],
            [f"arn:{account.partition}:ce::{account.id}:anomaly{kind}/*" for kind in ("monitor", "subscription")],
            sid="OurAnomalyAlarms",
        ),
    ]


def _buckets(account: Account) -> list[str]:
    """The buckets of this project: `infra.storage.bucket_name`, `infra.request_bucket.request_bucket_name`."""
    return [f"arn:{account.partition}:s3:::triton-{kind}-*-{account.id}-{account.region}" for kind in ("models", "requests")]
