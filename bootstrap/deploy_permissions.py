"""What the deploy role may do beside reading. Every action is named; what an action can be bound to, it is bound to.

Roles, policies and keys that the platform makes are bound by their tag `project`, queues, buckets, rules and logs by names.
What has neither when it is made (most of EC2) is bound to the region. Who deploys writes the policies of the platform's
roles: that is as much as those may be given, which is why deployments are approved.
"""

from __future__ import annotations

from typing import Any

from bootstrap.permissions import buckets
from bootstrap.settings import ENVIRONMENT
from infra.account import Account
from infra.policy import Statement, allow
from infra.versions import PROJECT

_OURS = {"StringEquals": {"aws:ResourceTag/project": PROJECT}}
_MADE_OURS = {"StringEquals": {"aws:RequestTag/project": PROJECT}}


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
        # It takes no resource: with an ARN it is allowed nothing.
        allow(["eks:CreateCluster"], ["*"], sid="MakeClusters", condition=_MADE_OURS),
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
    ours = buckets(account)
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
            ours,
            sid="OurBuckets",
        ),
        # Promotion of releases; and the emptying of a bucket that a stack lets go of.
        allow(
            ["s3:AbortMultipartUpload", "s3:DeleteObject", "s3:DeleteObjectVersion", "s3:GetObject", "s3:PutObject"],
            [f"{bucket}/*" for bucket in ours],
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
        # Not the keys of Pulumi's state and of stacks' secrets, whose tag `project` is the same: without them no stack is
        # left.
        {
            "Sid": "NotTheStatesKeys",
            "Effect": "Deny",
            "Action": [
                "kms:CreateAlias",
                "kms:CreateGrant",
                "kms:DeleteAlias",
                "kms:PutKeyPolicy",
                "kms:ScheduleKeyDeletion",
                "kms:TagResource",
                "kms:UntagResource",
                "kms:UpdateAlias",
                "kms:UpdateKeyDescription",
            ],
            "Resource": [account.arn("kms", "key/*")],
            "Condition": {"StringEquals": {"aws:ResourceTag/environment": ENVIRONMENT}},
        },
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
            [account.arn("events", "rule/triton-*")],
            sid="OurRules",
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
