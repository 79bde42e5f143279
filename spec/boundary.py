"""The permissions boundary of a stack's roles: the upper limit of their permissions, whatever their own policies allow.

Whoever deploys can write the roles' policies and trust. The boundary keeps the roles from IAM, other environments and KMS
keys outside the stack. `bootstrap` creates it, so the deploy role cannot change it.
"""

from __future__ import annotations

from collections.abc import Sequence

from spec import names
from spec.iam_policy import Statement, allow, document
from spec.versions import PROJECT

_READ_ANYTHING = (
    "acm:DescribeCertificate",
    "acm:ListCertificates",
    "autoscaling:Describe*",
    "ec2:Describe*",
    "ec2:GetCoipPoolUsage",
    "ec2:GetInstanceTypesFromInstanceRequirements",
    "ec2:GetSecurityGroupsForVpc",
    "ecr:BatchGetImage",
    "ecr:BatchImportUpstreamImage",
    "ecr:GetAuthorizationToken",
    "ecr:GetDownloadUrlForLayer",
    "eks:DescribeCluster",
    "eks:DescribeNodegroup",
    "elasticloadbalancing:Describe*",
    "iam:GetInstanceProfile",
    "iam:GetServerCertificate",
    "iam:ListInstanceProfiles",
    "iam:ListServerCertificates",
    "logs:DescribeLogGroups",
    "pricing:GetProducts",
)
_WRITE_ANYWHERE = (
    "aps:RemoteWrite",
    "ec2messages:*",
    "elasticloadbalancing:*",
    "sns:Publish",
    "ssm:Describe*",
    "ssm:GetDeployablePatchSnapshotForInstance",
    "ssm:GetDocument",
    "ssm:GetManifest",
    "ssm:List*Associations",
    "ssm:PutComplianceItems",
    "ssm:PutConfigurePackageResult",
    "ssm:PutInventory",
    "ssm:Update*AssociationStatus",
    "ssm:UpdateInstanceInformation",
    "ssmmessages:*",
    "xray:Put*",
)
"""AWS binds these actions to no resource of a stack: an agent's calls about its instance, traces, metrics, load
balancers."""
_EC2 = (
    "*NetworkInterface",
    "*SecurityGroupIngress",
    "*Volume",
    "AssignPrivateIpAddresses",
    "CopyVolumes",
    "CreateFleet",
    "CreateLaunchTemplate",
    "CreateSecurityGroup",
    "CreateSnapshot",
    "CreateTags",
    "DeleteLaunchTemplate",
    "DeleteSecurityGroup",
    "DeleteTags",
    "ModifyNetworkInterfaceAttribute",
    "RunInstances",
    "TerminateInstances",
    "UnassignPrivateIpAddresses",
)
"""Excludes changes of a running instance's user data or profile, which would give access to its role."""


def boundary(
    account_id: str,
    region: str,
    stack: str,
    environment: str,
    *,
    partition: str = "aws",
    clusters: Sequence[str] = (),
    connection: str | None = None,
    older_node_roles: Sequence[str] = (),
) -> str:
    """Return the boundary of a stack's roles, as JSON text.

    `clusters` are existing clusters that stacks use. `connection` is the CodeConnection of the stack's runner.
    `older_node_roles` are ARNs of node roles from before the stack's roles had a path.
    """
    cluster = names.cluster_name(stack)

    def arn(service: str, resource: str, region: str = region) -> str:
        return f"arn:{partition}:{service}:{region}:{account_id}:{resource}"

    bucket_names = [make(stack, account_id, region) for make in (names.model_bucket, names.request_bucket)]
    buckets = [f"arn:{partition}:s3:::{bucket}" for bucket in bucket_names]
    snapshots = f"arn:{partition}:ec2:{region}::snapshot/*"
    own_snapshots = {"StringEquals": {"aws:ResourceTag/ebs.csi.aws.com/cluster-name": [cluster, *clusters]}}
    statements: list[Statement] = [
        allow([*_READ_ANYTHING, *_WRITE_ANYWHERE], ["*"], sid="Anywhere"),
        allow([f"ec2:{action}" for action in _EC2], [f"arn:{partition}:ec2:{region}:*:*"], sid="Ec2"),
        allow(["ec2:RunInstances", "ec2:CreateFleet"], [f"arn:{partition}:ec2:{region}::image/*", snapshots], sid="Launch"),
        allow(["ec2:CreateSnapshot", "ec2:CreateTags"], [snapshots], sid="TakeSnapshots"),
        allow(
            ["ec2:CreateVolume", "ec2:DeleteSnapshot", "ec2:EnableFastSnapshotRestores", "ec2:LockSnapshot"],
            [snapshots],
            sid="OwnSnapshots",
            condition=own_snapshots,
        ),
        allow(
            ["ec2:CreateNetworkInterfacePermission"],
            [arn("ec2", "network-interface/*")],
            sid="RunnersInterfaces",
            condition={"StringEquals": {"ec2:AuthorizedService": "codebuild.amazonaws.com"}},
        ),
        allow(
            ["autoscaling:SetDesiredCapacity", "autoscaling:TerminateInstanceInAutoScalingGroup"],
            [arn("autoscaling", "autoScalingGroup:*")],
            sid="OwnGroups",
            condition={"StringEquals": {"aws:ResourceTag/eks:cluster-name": [cluster, *clusters]}},
        ),
        allow(
            ["eks-auth:AssumeRoleForPodIdentity"],
            [arn("eks", f"cluster/{name}") for name in (cluster, *clusters)],
            sid="PodIdentity",
        ),
        allow(
            ["iam:PassRole"],
            [arn("iam", f"role{names.role_path(stack)}*", region=""), *older_node_roles],
            sid="NodesRole",
            condition={"StringEquals": {"iam:PassedToService": ["ec2.amazonaws.com", "ec2.amazonaws.com.cn"]}},
        ),
        allow(
            ["iam:CreateServiceLinkedRole"],
            [arn("iam", "role/aws-service-role/elasticloadbalancing.amazonaws.com/*", region="")],
            sid="LoadBalancersRole",
        ),
        allow(
            ["s3:AbortMultipartUpload", "s3:DeleteObject", "s3:GetObject*", "s3:ListBucket", "s3:PutObject"],
            [*buckets, *(f"{bucket}/*" for bucket in buckets)],
            sid="OwnBuckets",
        ),
        allow(
            [
                "sqs:ChangeMessageVisibility",
                "sqs:DeleteMessage",
                "sqs:GetQueueAttributes",
                "sqs:GetQueueUrl",
                "sqs:ReceiveMessage",
                "sqs:SendMessage",
            ],
            [arn("sqs", f"{cluster}-*")],
            sid="OwnQueues",
        ),
        allow(
            ["logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"],
            [arn("logs", f"log-group:/aws/*/{cluster}/*")],
            sid="OwnLogs",
        ),
        allow(
            ["secretsmanager:DescribeSecret", "secretsmanager:GetSecretValue"],
            [arn("secretsmanager", f"secret:{names.client_secret(cluster, '*')}")],
            sid="OwnSecrets",
        ),
        allow(
            ["ssm:GetParameter", "ssm:GetParameters"],
            [f"arn:{partition}:ssm:{region}::parameter/aws/*"],
            sid="AwsParameters",
        ),
        # AWS-managed keys encrypt volumes if the account has no other default. Their policies bind them to services.
        allow(
            [
                "kms:CreateGrant",
                "kms:Decrypt",
                "kms:DescribeKey",
                "kms:Encrypt",
                "kms:GenerateDataKey*",
                "kms:ListGrants",
                "kms:ReEncrypt*",
            ],
            [arn("kms", "key/*")],
            sid="OwnKeys",
            condition={"ForAnyValue:StringLike": {"kms:ResourceAliases": [f"alias/{cluster}-*", "alias/aws/*"]}},
        ),
        {
            "Sid": "NothingOfOtherEnvironments",
            "Effect": "Deny",
            "Action": ["*"],
            "Resource": ["*"],
            "Condition": {
                "StringEquals": {"aws:ResourceTag/project": PROJECT},
                "StringNotEquals": {"aws:ResourceTag/environment": environment},
            },
        },
    ]
    if connection is not None:
        asking = ["codeconnections:GetConnection", "codeconnections:GetConnectionToken"]
        statements.append(allow(asking, [connection], sid="RunnersRepository"))
    return document(*statements)
