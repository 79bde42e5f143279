"""Grant the deploy role of an environment its write permissions. All actions are named and limited to the stacks.

Networks, keys and file systems are limited by the tags `project` and `environment`; queues, buckets, rules and logs by the
stacks' names. EC2 and IAM are in separate modules (`deploy_network`, `deploy_identity`).
"""

from __future__ import annotations

from collections.abc import Sequence

from bootstrap.bounds import Scope
from bootstrap.deploy_identity import identity, older, profiles, services_own_roles
from bootstrap.deploy_network import network
from bootstrap.permissions import read_domains
from bootstrap.settings import ENVIRONMENT
from infra.aws.account import Account
from spec.iam_policy import Statement, allow
from spec.names import RELEASES_PREFIX, model_bucket
from spec.versions import PROJECT

_FOR_SERVICES = {"StringLike": {"kms:ViaService": ["eks.*", "fsx.*"]}}


def deploy(scope: Scope) -> dict[str, list[Statement]]:
    """Return, by purpose, the statements that allow creating, changing and deleting the stacks. Reading is separate."""
    return {
        "network": network(scope),
        "cluster": [*_cluster(scope), *(_others_clusters(scope) if scope.clusters else [])],
        "identity": identity(scope),
        "service-identity": [*profiles(scope), *services_own_roles(scope)],
        **({"older-roles": older(scope)} if scope.older_roles else {}),
        "data": _data(scope),
        "file-systems": _file_systems(scope),
        "watching": _watching(scope),
    }


def promote(scope: Scope, sources: Sequence[str]) -> list[Statement]:
    """Return the statements that allow reading releases: of the previous environment, and of stacks in other accounts."""
    return [*_promote_within(scope), *(_promote_from(scope.account, sources) if sources else [])]


def _promote_within(scope: Scope) -> list[Statement]:
    """Return the statements that allow reading releases of the previous environment. `permissions.read` allows
    listing them."""
    if scope.before is None:
        return []
    (environment, stacks), account = scope.before, scope.account
    buckets = [model_bucket(stack, account.id, account.region) for stack in stacks]
    condition = {
        "StringEquals": {
            "aws:ResourceTag/project": PROJECT,
            "aws:ResourceTag/environment": environment,
            "kms:ViaService": account.host("s3"),
        }
    }
    return [
        allow(
            ["s3:GetObject"],
            [f"arn:{account.partition}:s3:::{bucket}/{RELEASES_PREFIX}*" for bucket in buckets],
            sid="ReadReleasesBefore",
        ),
        allow(["kms:Decrypt"], [account.arn("kms", "key/*")], sid="DecryptReleasesBefore", condition=condition),
    ]


def _promote_from(account: Account, sources: Sequence[str]) -> list[Statement]:
    """Return the statements that allow reading releases of stacks in other accounts, in all regions.

    Their buckets and keys must allow this account: `models.readerAccounts` of those stacks. Bucket names are global, so a
    bucket of such a name in another account is excluded.
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


def access(scope: Scope) -> list[Statement]:
    """Return the statements that let jobs reach private API servers: sessions through nodes, and runners in VPCs."""
    return [*_tunnel(scope), *_runners(scope)]


def domains(scope: Scope, zones: Sequence[str]) -> list[Statement]:
    """Return the statements for gateways' domain names. They allow our certificates, and address and alias records in the
    zones.

    The zones' other records, such as mail records, are excluded. `zones`: ids of the hosted zones (`gateway.domain`).
    """
    account = scope.account
    certificates = account.arn("acm", "certificate/*")
    return [
        *read_domains(account, zones),
        # The action has no resource type, so a statement with an ARN would allow nothing.
        allow(["acm:RequestCertificate"], ["*"], sid="MakeCertificates", condition=scope.requested),
        allow(["acm:AddTagsToCertificate"], [certificates], sid="TagNewCertificates", condition=scope.claimed),
        allow(
            ["acm:DeleteCertificate", "acm:RemoveTagsFromCertificate"],
            [certificates],
            sid="OurCertificates",
            condition=scope.owned,
        ),
        allow(
            ["route53:ChangeResourceRecordSets"],
            [f"arn:{account.partition}:route53:::hostedzone/{zone}" for zone in zones],
            sid="LeadToGateways",
            condition={"ForAllValues:StringEquals": {"route53:ChangeResourceRecordSetsRecordTypes": ["A", "CNAME"]}},
        ),
    ]


def _cluster(scope: Scope) -> list[Statement]:
    account = scope.account
    return [
        # The action has no resource type, so a statement with an ARN would allow nothing.
        allow(["eks:CreateCluster"], ["*"], sid="MakeClusters", condition=scope.requested),
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
                *scope.arns("eks", "cluster/{}"),
                *(
                    arn
                    for kind in ("nodegroup", "addon", "access-entry", "podidentityassociation")
                    for arn in scope.arns("eks", f"{kind}/{{}}/*")
                ),
            ],
            sid="ChangeOurClusters",
        ),
        # EKS tags the Auto Scaling group of a node group with this key.
        allow(
            ["autoscaling:CreateOrUpdateTags", "autoscaling:DeleteTags"],
            [account.arn("autoscaling", "autoScalingGroup:*:autoScalingGroupName/eks-*")],
            sid="TagScalingGroups",
            condition={"StringEquals": {"aws:ResourceTag/eks:cluster-name": [*scope.named("{}"), *scope.clusters]}},
        ),
    ]


def _others_clusters(scope: Scope) -> list[Statement]:
    """Allow only our node groups and pod identities in other owners' clusters."""
    account, clusters = scope.account, scope.clusters
    ours = [account.arn("eks", f"{kind}/{name}/*") for kind in ("nodegroup", "podidentityassociation") for name in clusters]
    return [
        allow(
            ["eks:CreateNodegroup", "eks:CreatePodIdentityAssociation"],
            [account.arn("eks", f"cluster/{name}") for name in clusters],
            sid="JoinOthersClusters",
            condition=scope.requested,
        ),
        allow(["eks:TagResource"], ours, sid="TagInOthersClusters", condition=scope.claimed),
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
            condition=scope.owned,
        ),
    ]


def _tunnel(scope: Scope) -> list[Statement]:
    """Allow `stackctl tunnel`. It opens sessions through our nodes, only with the document that forwards a port, never a
    shell.

    Without the condition, permission for an instance includes every document:
    https://docs.aws.amazon.com/systems-manager/latest/userguide/getting-started-sessiondocumentaccesscheck.html.
    """
    account = scope.account
    checked = {"BoolIfExists": {"ssm:SessionDocumentAccessCheck": "true"}}
    document = f"arn:{account.partition}:ssm:{account.region}::document/AWS-StartPortForwardingSessionToRemoteHost"
    return [
        allow(
            ["ssm:StartSession"],
            [account.arn("ec2", "instance/*")],
            sid="ThroughOurNodes",
            condition={
                "StringEquals": {"ssm:resourceTag/project": PROJECT, "ssm:resourceTag/environment": scope.environment},
                **checked,
            },
        ),
        allow(["ssm:StartSession"], [document], sid="ForwardAPort", condition=checked),
        # Only its own sessions: a session's id begins with the name of the role's session.
        allow(
            ["ssm:ResumeSession", "ssm:TerminateSession"],
            [
                account.arn("ssm", session)
                for stack in scope.stacks
                for session in (f"session/deploy-{stack}-*", f"session/destroy-{stack}-*")
            ],
            sid="EndSessions",
        ),
    ]


def _runners(scope: Scope) -> list[Statement]:
    """Allow runners inside VPCs (`cluster.apiAccess.runner`), by names."""
    statements = [
        allow(
            [
                "codebuild:CreateProject",
                "codebuild:CreateWebhook",
                "codebuild:DeleteProject",
                "codebuild:DeleteWebhook",
                "codebuild:UpdateProject",
                "codebuild:UpdateWebhook",
            ],
            scope.arns("codebuild", "project/{}-runner"),
            sid="OurRunners",
        ),
    ]
    if scope.connections:
        # CodeBuild reads the repository with the permissions of the caller that names the connection.
        asking = ("GetConnection", "GetConnectionToken", "PassConnection", "UseConnection")
        actions = [f"codeconnections:{action}" for action in asking]
        statements.append(allow(actions, list(scope.connections), sid="NameConnections"))
    return statements


def _data(scope: Scope) -> list[Statement]:
    account, ours = scope.account, scope.buckets
    aliases = {"ForAnyValue:StringLike": {"kms:ResourceAliases": scope.named("alias/{}-*")}}
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
        # For the promotion of releases, and to empty a bucket that a stack no longer manages.
        allow(
            ["s3:AbortMultipartUpload", "s3:DeleteObject", "s3:DeleteObjectVersion", "s3:GetObject", "s3:PutObject"],
            [f"{bucket}/*" for bucket in ours],
            sid="OurObjects",
        ),
        # The action has no resource type, so a statement with an ARN would allow nothing.
        allow(["kms:CreateKey"], ["*"], sid="MakeKeys", condition=scope.requested),
        # A key that is being created has no alias yet. Another owner's key without an alias can be tagged too and then
        # counts as ours: docs/github.md describes this, and a separate account prevents it.
        allow(
            ["kms:TagResource"],
            [account.arn("kms", "key/*")],
            sid="TagNewKeys",
            condition={**scope.claimed, "Null": {**scope.claimed["Null"], "kms:ResourceAliases": "true"}},
        ),
        # IAM takes up to five minutes to apply a key's tags and aliases, and the provider makes these calls at once:
        # https://docs.aws.amazon.com/kms/latest/developerguide/tag-authorization.html. No condition key distinguishes our
        # new key from another owner's without an alias. Neither action allows using a key or reading encrypted data.
        allow(
            ["kms:CreateAlias", "kms:EnableKeyRotation"],
            [account.arn("kms", "key/*")],
            sid="BeginNewKeys",
            condition={"Null": {"kms:ResourceAliases": "true"}},
        ),
        # EKS and FSx create a grant when they create a resource with the key. `kms:GrantIsForAWSResource` does not work for
        # EKS, by its user guide. Only these services make such a call, so the role gets no access to a key.
        *(
            allow(["kms:CreateGrant"], [account.arn("kms", "key/*")], sid=sid, condition={**_FOR_SERVICES, **condition})
            for sid, condition in (
                ("GrantNewKeys", {"Null": {"kms:ResourceAliases": "true"}}),
                ("GrantNamedKeys", aliases),
            )
        ),
        allow(
            [
                "kms:CreateGrant",
                "kms:Decrypt",
                "kms:DeleteAlias",
                "kms:EnableKeyRotation",
                "kms:GenerateDataKey",
                "kms:PutKeyPolicy",
                "kms:TagResource",
                "kms:UntagResource",
                "kms:UpdateAlias",
                "kms:UpdateKeyDescription",
            ],
            [account.arn("kms", "key/*")],
            sid="OurKeys",
            condition={**scope.owned, **aliases},
        ),
        # The alias is created after the key, and deleted before it.
        allow(
            ["kms:CreateAlias", "kms:ScheduleKeyDeletion"],
            [account.arn("kms", "key/*")],
            sid="EndOurKeys",
            condition=scope.owned,
        ),
        # The keys of Pulumi's state and of stacks' secrets have the same tag `project`, and are excluded, because without
        # them no stack is usable.
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
            scope.arns("kms", "alias/{}-*"),
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
            scope.arns("sqs", "{}-*"),
            sid="OurQueues",
        ),
    ]


def _file_systems(scope: Scope) -> list[Statement]:
    """Allow FSx for Lustre, for stacks with `models.access` fsx-lustre."""
    account = scope.account
    systems, links = account.arn("fsx", "file-system/*"), account.arn("fsx", "association/*")
    return [
        allow(["fsx:CreateFileSystem"], [systems], sid="MakeFileSystems", condition=scope.requested),
        # A link to a bucket is created for a file system, which must be ours already.
        allow(["fsx:CreateDataRepositoryAssociation"], [links], sid="MakeLinks", condition=scope.requested),
        allow(["fsx:TagResource"], [systems, links], sid="TagFileSystems", condition=scope.claimed),
        # FSx calls this with the permissions of the caller that creates a file system.
        allow(["ec2:GetSecurityGroupsForVpc"], [account.arn("ec2", "vpc/*")], sid="FindGroups", condition=scope.owned),
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
            condition=scope.owned,
        ),
    ]


def _watching(scope: Scope) -> list[Statement]:
    account = scope.account
    budgets = [
        f"arn:{account.partition}:budgets::{account.id}:budget/{name}" for name in scope.named(f"{{}}-{account.region}")
    ]
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
            scope.arns("logs", "log-group:/aws/*/{}/*"),
            sid="OurLogGroups",
        ),
        allow(
            [
                "cloudwatch:DeleteAlarms",
                "cloudwatch:PutMetricAlarm",
                "cloudwatch:TagResource",
                "cloudwatch:UntagResource",
            ],
            scope.arns("cloudwatch", "alarm:{}-*"),
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
            scope.arns("events", "rule/{}-*"),
            sid="OurRules",
        ),
        allow(["budgets:ModifyBudget", "budgets:TagResource", "budgets:UntagResource"], budgets, sid="OurBudgets"),
        # The actions have no resource type, so a statement with an ARN would allow nothing.
        allow(
            ["ce:CreateAnomalyMonitor", "ce:CreateAnomalySubscription"],
            ["*"],
            sid="MakeAnomalyAlarms",
            condition=scope.requested,
        ),
        allow(["ce:TagResource"], anomalies, sid="TagAnomalyAlarms", condition=scope.claimed),
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
            condition=scope.owned,
        ),
    ]
