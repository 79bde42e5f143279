"""Grant the deploy role its rights beside reading. Every action is named; what an action can be bound to, it is bound to.

Keys and file systems that the platform makes are bound by their tag `project`, queues, buckets, rules and logs by names.
EC2 and IAM are apart (`deploy_network`, `deploy_identity`). Who deploys writes the policies of the platform's roles: that is
as much as those may be given, which is why deployments are approved.
"""

from __future__ import annotations

from collections.abc import Sequence

from bootstrap.bounds import MADE_OURS, OURS
from bootstrap.deploy_identity import identity, profiles, services_own_roles
from bootstrap.deploy_network import network
from bootstrap.permissions import buckets, read_domains
from bootstrap.settings import ENVIRONMENT
from infra.aws.account import Account
from spec.iam_policy import Statement, allow
from spec.names import RELEASES_PREFIX
from spec.versions import PROJECT

_FOR_SERVICES = {"StringLike": {"kms:ViaService": ["eks.*", "fsx.*"]}}


def deploy(account: Account, clusters: Sequence[str] = ()) -> dict[str, list[Statement]]:
    """Return the statements that making, changing and deleting the platform takes beside reading it, by purpose.

    `clusters`: names of clusters that were there before and that stacks go into (`cluster.existing`).
    """
    return {
        "network": network(account, clusters),
        "cluster": [*_cluster(account), *(_others_clusters(account, clusters) if clusters else [])],
        "identity": identity(account),
        "data": _data(account),
        "file-systems": _file_systems(account),
        "watching": _watching(account),
    }


def promote(account: Account, sources: Sequence[str]) -> list[Statement]:
    """Return the statements by which releases of stacks in other accounts are read, of all regions.

    Their buckets and keys have to let this account in: `models.readerAccounts` of those stacks. Names of buckets are
    everybody's, and a bucket that another account made under such a name is not read.
    """
    theirs = {"StringEquals": {"aws:ResourceAccount": list(sources)}}
    buckets = [f"arn:{account.partition}:s3:::triton-models-*-{source}-*" for source in sources]
    through_s3 = {"StringLike": {"kms:ViaService": "s3.*"}}
    keys = [f"arn:{account.partition}:kms:*:{source}:key/*" for source in sources]
    return [
        allow(["s3:ListBucket"], buckets, sid="FindReleasesOfOthers", condition=theirs),
        allow(
            ["s3:GetObject"],
            [f"{bucket}/{RELEASES_PREFIX}*" for bucket in buckets],
            sid="ReadReleasesOfOthers",
            condition=theirs,
        ),
        allow(["kms:Decrypt"], keys, sid="DecryptReleasesOfOthers", condition=through_s3),
    ]


def access(account: Account) -> list[Statement]:
    """Return the statements by which jobs reach private API servers: sessions through nodes, and runners in VPCs."""
    return [*_tunnel(account), *_runners(account)]


def domains(account: Account, zones: Sequence[str]) -> list[Statement]:
    """Return the statements by which gateways get names: certificates of ours, and addresses and aliases in the zones.

    Not the zones' other records, such as those of mail. `zones`: ids of the hosted zones (`gateway.domain`).
    """
    certificates = account.arn("acm", "certificate/*")
    return [
        *read_domains(account, zones),
        # It takes no resource: with an ARN it is allowed nothing.
        allow(["acm:RequestCertificate"], ["*"], sid="MakeCertificates", condition=MADE_OURS),
        allow(["acm:AddTagsToCertificate"], [certificates], sid="TagNewCertificates", condition=MADE_OURS),
        allow(
            ["acm:DeleteCertificate", "acm:RemoveTagsFromCertificate"],
            [certificates],
            sid="OurCertificates",
            condition=OURS,
        ),
        allow(
            ["route53:ChangeResourceRecordSets"],
            [f"arn:{account.partition}:route53:::hostedzone/{zone}" for zone in zones],
            sid="LeadToGateways",
            condition={"ForAllValues:StringEquals": {"route53:ChangeResourceRecordSetsRecordTypes": ["A", "CNAME"]}},
        ),
    ]


def _cluster(account: Account) -> list[Statement]:
    return [
        # It takes no resource: with an ARN it is allowed nothing.
        allow(["eks:CreateCluster"], ["*"], sid="MakeClusters", condition=MADE_OURS),
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
        *profiles(account),
        *services_own_roles(account),
    ]


def _others_clusters(account: Account, clusters: Sequence[str]) -> list[Statement]:
    """Allow node groups and pod identities of ours in clusters of others, and nothing else there."""
    ours = [account.arn("eks", f"{kind}/{name}/*") for kind in ("nodegroup", "podidentityassociation") for name in clusters]
    return [
        allow(
            ["eks:CreateNodegroup", "eks:CreatePodIdentityAssociation"],
            [account.arn("eks", f"cluster/{name}") for name in clusters],
            sid="JoinOthersClusters",
            condition=MADE_OURS,
        ),
        allow(["eks:TagResource"], ours, sid="TagInOthersClusters", condition=MADE_OURS),
        allow(
            [
                "eks:DeleteNodegroup",
                "eks:DeletePodIdentityAssociation",
                "eks:TagResource",
                "eks:UntagResource",
                "eks:UpdateNodegroupConfig",
                "eks:UpdateNodegroupVersion",
                "eks:UpdatePodIdentityAssociation",
            ],
            ours,
            sid="ChangeOursInOthersClusters",
            condition=OURS,
        ),
    ]


def _tunnel(account: Account) -> list[Statement]:
    """Allow `stackctl tunnel`: sessions through our nodes, by the one document that forwards a port, and never a shell.

    Without the condition a right to an instance is one to every document:
    https://docs.aws.amazon.com/systems-manager/latest/userguide/getting-started-sessiondocumentaccesscheck.html.
    """
    checked = {"BoolIfExists": {"ssm:SessionDocumentAccessCheck": "true"}}
    document = f"arn:{account.partition}:ssm:{account.region}::document/AWS-StartPortForwardingSessionToRemoteHost"
    return [
        allow(
            ["ssm:StartSession"],
            [account.arn("ec2", "instance/*")],
            sid="ThroughOurNodes",
            condition={"StringEquals": {"ssm:resourceTag/project": PROJECT}, **checked},
        ),
        allow(["ssm:StartSession"], [document], sid="ForwardAPort", condition=checked),
        # Its own alone: the id of a session begins with the name of the role's session.
        allow(
            ["ssm:ResumeSession", "ssm:TerminateSession"],
            [account.arn("ssm", "session/deploy-*"), account.arn("ssm", "session/destroy-*")],
            sid="EndSessions",
        ),
    ]


def _runners(account: Account) -> list[Statement]:
    """Allow runners inside VPCs (`cluster.apiAccess.runner`), by names."""
    return [
        allow(
            [
                "codebuild:CreateProject",
                "codebuild:CreateWebhook",
                "codebuild:DeleteProject",
                "codebuild:DeleteWebhook",
                "codebuild:UpdateProject",
                "codebuild:UpdateWebhook",
            ],
            [account.arn("codebuild", "project/triton-*-runner")],
            sid="OurRunners",
        ),
        # CodeBuild asks for the repository with the rights of whoever names the connection, which may be of any region.
        allow(
            [
                "codeconnections:GetConnection",
                "codeconnections:GetConnectionToken",
                "codeconnections:PassConnection",
                "codeconnections:UseConnection",
            ],
            [f"arn:{account.partition}:codeconnections:*:{account.id}:connection/*"],
            sid="NameConnections",
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
                "s3:TagResource",
                "s3:UntagResource",
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
        # It takes no resource: with an ARN it is allowed nothing.
        allow(["kms:CreateKey"], ["*"], sid="MakeKeys", condition=MADE_OURS),
        # A key that is being made has no alias yet. A stranger's key without one can be tagged too and is ours then:
        # docs/github.md says so, and an account of its own prevents it.
        allow(
            ["kms:TagResource"],
            [account.arn("kms", "key/*")],
            sid="TagNewKeys",
            condition={**MADE_OURS, "Null": {"kms:ResourceAliases": "true"}},
        ),
        # Tags and aliases of a key take up to five minutes until IAM goes by them, and the provider calls these at once:
        # https://docs.aws.amazon.com/kms/latest/developerguide/tag-authorization.html. No condition key tells a new key of
        # ours from a stranger's without an alias, and neither action lets anybody use a key or see what it encrypts.
        allow(
            ["kms:CreateAlias", "kms:EnableKeyRotation"],
            [account.arn("kms", "key/*")],
            sid="BeginNewKeys",
            condition={"Null": {"kms:ResourceAliases": "true"}},
        ),
        # EKS and FSx take a grant when they create something with the key. `kms:GrantIsForAWSResource` does not hold for
        # EKS, by its user guide; nobody but these services makes such a call, so that the role gets no key by it.
        *(
            allow(["kms:CreateGrant"], [account.arn("kms", "key/*")], sid=sid, condition={**_FOR_SERVICES, **condition})
            for sid, condition in (
                ("GrantNewKeys", {"Null": {"kms:ResourceAliases": "true"}}),
                ("GrantNamedKeys", {"ForAnyValue:StringLike": {"kms:ResourceAliases": ["alias/triton-*"]}}),
            )
        ),
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
                "kms:TagResource",
                "kms:UntagResource",
                "kms:UpdateAlias",
                "kms:UpdateKeyDescription",
            ],
            [account.arn("kms", "key/*")],
            sid="OurKeys",
            condition=OURS,
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


def _file_systems(account: Account) -> list[Statement]:
    """Allow FSx for Lustre, for stacks whose `models.access` is fsx-lustre."""
    systems, links = account.arn("fsx", "file-system/*"), account.arn("fsx", "association/*")
    return [
        allow(["fsx:CreateFileSystem"], [systems], sid="MakeFileSystems", condition=MADE_OURS),
        # A link to a bucket is made at a file system, which has to be ours already.
        allow(["fsx:CreateDataRepositoryAssociation"], [links], sid="MakeLinks", condition=MADE_OURS),
        allow(["fsx:TagResource"], [systems, links], sid="TagFileSystems", condition=MADE_OURS),
        # FSx asks it with the rights of whoever makes a file system.
        allow(["ec2:GetSecurityGroupsForVpc"], [account.arn("ec2", "vpc/*")], sid="FindGroups", condition=OURS),
        allow(
            [
                "fsx:CreateDataRepositoryAssociation",
                "fsx:DeleteDataRepositoryAssociation",
                "fsx:DeleteFileSystem",
                "fsx:TagResource",
                "fsx:UntagResource",
                "fsx:UpdateDataRepositoryAssociation",
                "fsx:UpdateFileSystem",
            ],
            [systems, links],
            sid="OurFileSystems",
            condition=OURS,
        ),
    ]


def _watching(account: Account) -> list[Statement]:
    budgets = [f"arn:{account.partition}:budgets::{account.id}:budget/triton-*"]
    anomalies = [f"arn:{account.partition}:ce::{account.id}:anomaly{kind}/*" for kind in ("monitor", "subscription")]
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
        # They take no resource: with an ARN they are allowed nothing.
        allow(
            ["ce:CreateAnomalyMonitor", "ce:CreateAnomalySubscription"],
            ["*"],
            sid="MakeAnomalyAlarms",
            condition=MADE_OURS,
        ),
        allow(["ce:TagResource"], anomalies, sid="TagAnomalyAlarms", condition=MADE_OURS),
        allow(
            [
                "ce:DeleteAnomalyMonitor",
                "ce:DeleteAnomalySubscription",
                "ce:TagResource",
                "ce:UntagResource",
                "ce:UpdateAnomalyMonitor",
                "ce:UpdateAnomalySubscription",
            ],
            anomalies,
            sid="OurAnomalyAlarms",
            condition=OURS,
        ),
    ]
