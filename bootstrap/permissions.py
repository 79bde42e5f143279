"""Grant both roles read permissions, and each its permissions for Pulumi's state. All actions are named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from infra.aws.account import Account
from spec.iam_policy import Statement, allow, document
from spec.versions import PROJECT


@dataclass(frozen=True)
class StateAccess:
    """The ARNs of the state bucket, of its key and of the key of stacks' secrets."""

    bucket_arn: str
    bucket_key_arn: str
    secrets_key_arn: str


def read_state(state: StateAccess) -> str:
    """Return the policy that reads state; a preview takes no lock and writes nothing."""
    return document(*_read_state(state, [f"{state.bucket_arn}/.pulumi/*"]))


def write_state(state: StateAccess, stacks: Sequence[str]) -> str:
    """Return the policy that reads and writes the state of these stacks. State is overwritten, never deleted; only locks are
    deleted.

    The layout comes from Pulumi's own backends: https://github.com/pulumi/pulumi/blob/v3.257.0/pkg/backend/diy/store.go and
    lock.go there.
    """
    folder = f"{state.bucket_arn}/.pulumi"
    locks = [f"{folder}/locks/organization/{PROJECT}/{stack}/*" for stack in stacks]
    own = [
        *(f"{folder}/stacks/{PROJECT}/{stack}.*" for stack in stacks),
        *(f"{folder}/{kind}/{PROJECT}/{stack}/*" for kind in ("backups", "history") for stack in stacks),
        *locks,
    ]
    return document(
        *_read_state(state, [f"{folder}/meta.yaml", *own]),
        allow(["s3:PutObject"], own, sid="WriteState"),
        allow(["s3:DeleteObject"], locks, sid="Unlock"),
        allow(["kms:GenerateDataKey"], [state.bucket_key_arn], sid="EncryptState"),
        allow(["kms:Encrypt"], [state.secrets_key_arn], sid="EncryptSecrets"),
    )


def _read_state(state: StateAccess, objects: Sequence[str]) -> list[Statement]:
    return [
        allow(["s3:ListBucket", "s3:GetBucketLocation"], [state.bucket_arn], sid="FindState"),
        allow(["s3:GetObject"], objects, sid="ReadState"),
        allow(["kms:Decrypt"], [state.bucket_key_arn, state.secrets_key_arn], sid="Decrypt"),
    ]


def read_domains(account: Account, zones: Sequence[str]) -> list[Statement]:
    """Return the permissions to read the gateways' names. `zones` has the ids of their hosted zones."""
    prefix = f"arn:{account.partition}:route53:::"
    return [
        allow(
            ["acm:DescribeCertificate", "acm:ListTagsForCertificate"],
            [account.arn("acm", "certificate/*")],
            sid="DescribeCertificates",
        ),
        allow(
            ["route53:GetChange", "route53:GetHostedZone", "route53:ListResourceRecordSets"],
            [f"{prefix}change/*", *(f"{prefix}hostedzone/{zone}" for zone in zones)],
            sid="DescribeZones",
        ),
    ]


def read(account: Account) -> list[Statement]:
    """Return the permissions for a refresh and for the program's own queries.

    They include no data: no object, no message, no log line.
    """
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
                "ec2:DescribePrefixLists",
                "ec2:DescribeRouteTables",
                "ec2:DescribeSecurityGroupRules",
                "ec2:DescribeSecurityGroups",
                "ec2:DescribeSnapshots",
                "ec2:DescribeSubnets",
                "ec2:DescribeTags",
                "ec2:DescribeVolumes",
                "ec2:DescribeVpcEndpoints",
                "ec2:DescribeVpcEndpointServices",
                "ec2:DescribeVpcs",
                "eks:DescribeAddonVersions",
                "eks:DescribeClusterVersions",
                "eks:ListClusters",
                "elasticloadbalancing:DescribeLoadBalancers",
                "elasticloadbalancing:DescribeTargetGroups",
                "elasticloadbalancing:DescribeTags",
                "fsx:DescribeDataRepositoryAssociations",
                "fsx:DescribeFileSystems",
                "kms:ListAliases",
                "kms:ListKeys",
                "logs:DescribeLogGroups",
                "sts:GetCallerIdentity",
                "tag:GetResources",
            ],
            ["*"],
            sid="Describe",
        ),
        allow(["ec2:DescribeVpcAttribute"], [account.arn("ec2", "vpc/*")], sid="DescribeNetworks"),
        allow(
            ["ce:GetAnomalyMonitors", "ce:GetAnomalySubscriptions", "ce:ListTagsForResource"],
            [f"arn:{account.partition}:ce::{account.id}:anomaly{kind}/*" for kind in ("monitor", "subscription")],
            sid="DescribeAnomalyAlarms",
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
                *(account.iam_arn(f"{kind}/*") for kind in ("instance-profile", "oidc-provider", "policy", "role")),
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
                "s3:ListTagsForResource",
            ],
            buckets(account),
            sid="DescribeBuckets",
        ),
        allow(
            ["sqs:GetQueueAttributes", "sqs:GetQueueUrl", "sqs:ListQueueTags"],
            [account.arn("sqs", "*")],
            sid="DescribeQueues",
        ),
        allow(["codebuild:BatchGetProjects"], [account.arn("codebuild", "project/*")], sid="DescribeRunners"),
        allow(
            ["fsx:ListTagsForResource"],
            [account.arn("fsx", f"{kind}/*") for kind in ("association", "file-system")],
            sid="DescribeFileSystems",
        ),
        allow(
            ["kms:DescribeKey", "kms:GetKeyPolicy", "kms:GetKeyRotationStatus", "kms:ListResourceTags"],
            [account.arn("kms", "key/*")],
            sid="DescribeKeys",
        ),
        allow(
            [
                "cloudwatch:DescribeAlarms",
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
    ]


def buckets(account: Account) -> list[str]:
    """Return the ARNs of all stacks' buckets: `spec.names.model_bucket` and `spec.names.request_bucket`."""
    return [f"arn:{account.partition}:s3:::triton-{kind}-*-{account.id}-{account.region}" for kind in ("models", "requests")]
