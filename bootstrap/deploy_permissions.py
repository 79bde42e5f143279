"""Grant the deploy role of an environment its permissions to write. Every action is named and bound to the stacks.

Networks, keys and file systems are bound by the tags `project` and `environment`; queues, buckets, rules and logs by the
stacks' names. EC2 and IAM are apart (`deploy_network`, `deploy_identity`).
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
    """Return the statements that making, changing and deleting the stacks takes beside reading them, by purpose."""
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
    """Return the statements by which releases are read: of the environment before, and of stacks in other accounts."""
    return [*_promote_within(scope), *(_promote_from(scope.account, sources) if sources else [])]


def _promote_within(scope: Scope) -> list[Statement]:
    """Return the statements by which releases of the environment before are read. `permissions.read` finds them."""
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


def access(scope: Scope) -> list[Statement]:
    """Return the statements by which jobs reach private API servers: sessions through nodes, and runners in VPCs."""
    return [*_tunnel(scope), *_runners(scope)]


def domains(scope: Scope, zones: Sequence[str]) -> list[Statement]:
    """Return the statements by which gateways get names: certificates of ours, and addresses and aliases in the zones.

    Not the zones' other records, such as those of mail. `zones`: ids of the hosted zones (`gateway.domain`).
    """
    account = scope.account
    certificates = account.arn("acm", "certificate/*")
    return [
        *read_domains(account, zones),
        # It takes no resource: with an ARN it is allowed nothing.
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
        # It takes no resource: with an ARN it is allowed nothing.
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
        # EKS tags the group of a node group so.
        allow(
            ["autoscaling:CreateOrUpdateTags", "autoscaling:DeleteTags"],
            [account.arn("autoscaling", "autoScalingGroup:*:autoScalingGroupName/eks-*")],
            sid="TagScalingGroups",
            condition={"StringEquals": {"aws:ResourceTag/eks:cluster-name": [*scope.named("{}"), *scope.clusters]}},
        ),
    ]


def _others_clusters(scope: Scope) -> list[Statement]:
    """Allow node groups and pod identities of ours in clusters of others, and nothing else there."""
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
    """Allow `stackctl tunnel`: sessions through our nodes, by the one document that forwards a port, and never a shell.

    Without the condition a right to an instance is one to every document:
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
        # Its own alone: the id of a session begins with the name of the role's session.
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
        # CodeBuild asks for the repository with the rights of whoever names the connection.
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
        # Promotion of releases; and the emptying of a bucket that a stack lets go of.
        allow(
            ["s3:AbortMultipartUpload", "s3:DeleteObject", "s3:DeleteObjectVersion", "s3:GetObject", "s3:PutObject"],
            [f"{bucket}/*" for bucket in ours],
            sid="OurObjects",
        ),
        # It takes no resource: with an ARN it is allowed nothing.
        allow(["kms:CreateKey"], ["*"], sid="MakeKeys", condition=scope.requested),
        # A key that is being made has no alias yet. A stranger's key without one can be tagged too and is ours then:
        # docs/github.md says so, and an account of its own prevents it.
        allow(
            ["kms:TagResource"],
            [account.arn("kms", "key/*")],
            sid="TagNewKeys",
            condition={**scope.claimed, "Null": {**scope.claimed["Null"], "kms:ResourceAliases": "true"}},
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
        # Its alias is created after it, and deleted before it.
        allow(
            ["kms:CreateAlias", "kms:ScheduleKeyDeletion"],
            [account.arn("kms", "key/*")],
            sid="EndOurKeys",
            condition=scope.owned,
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
    """Allow FSx for Lustre, for stacks whose `models.access` is fsx-lustre."""
    account = scope.account
    systems, links = account.arn("fsx", "file-system/*"), account.arn("fsx", "association/*")
    return [
        allow(["fsx:CreateFileSystem"], [systems], sid="MakeFileSystems", condition=scope.requested),
        # A link to a bucket is made at a file system, which has to be ours already.
        allow(["fsx:CreateDataRepositoryAssociation"], [links], sid="MakeLinks", condition=scope.requested),
        allow(["fsx:TagResource"], [systems, links], sid="TagFileSystems", condition=scope.claimed),
        # FSx asks it with the rights of whoever makes a file system.
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
        # They take no resource: with an ARN they are allowed nothing.
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
