"""The permissions of Karpenter's controller: its CloudFormation reference (1.14) without unneeded policies.

It creates no instance profiles, because the nodes use this program's, so it has no permission to change any. Its EC2
resources have the cluster's tag, and it may change and delete only resources with that tag.
"""

from __future__ import annotations

from infra.aws.account import Account
from spec.iam_policy import Statement, allow, document


def controller_policy(account: Account, cluster_name: str, node_role_arn: str, queue_arn: str) -> str:
    """Return the policy document."""
    return document(
        *_ec2(account, cluster_name),
        *_reading(account, cluster_name),
        allow(
            ["iam:PassRole"],
            [node_role_arn],
            sid="GiveNodesTheirRole",
            condition={"StringEquals": {"iam:PassedToService": ["ec2.amazonaws.com", "ec2.amazonaws.com.cn"]}},
        ),
        allow(["sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage"], [queue_arn], sid="HearOfInterruptions"),
    )


def _ec2(account: Account, cluster_name: str) -> list[Statement]:
    owned = f"kubernetes.io/cluster/{cluster_name}"
    public = [f"arn:{account.partition}:ec2:{account.region}::{kind}/*" for kind in ("image", "snapshot")]
    used = ("security-group", "subnet", "capacity-reservation", "placement-group")
    made = ("fleet", "instance", "volume", "network-interface", "launch-template", "spot-instances-request")
    asked_for = {
        "StringEquals": {f"aws:RequestTag/{owned}": "owned", "aws:RequestTag/eks:eks-cluster-name": cluster_name},
        "StringLike": {"aws:RequestTag/karpenter.sh/nodepool": "*"},
    }
    there = {
        "StringEquals": {f"aws:ResourceTag/{owned}": "owned"},
        "StringLike": {"aws:ResourceTag/karpenter.sh/nodepool": "*"},
    }
    launch = ["ec2:RunInstances", "ec2:CreateFleet"]
    return [
        allow(launch, [*public, *_any(account, used)], sid="LaunchWithWhatIsThere"),
        allow(launch, _any(account, ("launch-template",)), sid="LaunchFromOwnTemplates", condition=there),
        allow([*launch, "ec2:CreateLaunchTemplate"], _any(account, made), sid="LaunchWithTags", condition=asked_for),
        allow(
            ["ec2:CreateTags"],
            _any(account, made),
            sid="TagWhatIsLaunched",
            condition={
                **asked_for,
                "StringEquals": {
                    **asked_for["StringEquals"],
                    "ec2:CreateAction": ["RunInstances", "CreateFleet", "CreateLaunchTemplate"],
                },
            },
        ),
        allow(
            ["ec2:CreateTags"],
            _any(account, ("instance",)),
            sid="NameOwnInstances",
            condition={
                **there,
                "StringEqualsIfExists": {"aws:RequestTag/eks:eks-cluster-name": cluster_name},
                "ForAllValues:StringEquals": {"aws:TagKeys": ["eks:eks-cluster-name", "karpenter.sh/nodeclaim", "Name"]},
            },
        ),
        allow(
            ["ec2:TerminateInstances", "ec2:DeleteLaunchTemplate"],
            _any(account, ("instance", "launch-template")),
            sid="EndOwn",
            condition=there,
        ),
    ]


def _reading(account: Account, cluster_name: str) -> list[Statement]:
    described = (
        *("CapacityReservations", "Images", "InstanceStatus", "InstanceTypeOfferings", "InstanceTypes", "Instances"),
        *("LaunchTemplates", "PlacementGroups", "SecurityGroups", "SpotPriceHistory", "Subnets"),
    )
    return [
        allow(
            [f"ec2:Describe{what}" for what in described],
            ["*"],
            sid="LookAround",
            condition={"StringEquals": {"aws:RequestedRegion": account.region}},
        ),
        allow(
            ["ssm:GetParameter"],
            [f"arn:{account.partition}:ssm:{account.region}::parameter/aws/service/*"],
            sid="FindImages",
        ),
        allow(["pricing:GetProducts"], ["*"], sid="ComparePrices"),
        allow(["iam:ListInstanceProfiles"], ["*"], sid="ListInstanceProfiles"),
        allow(
            ["iam:GetInstanceProfile"],
            [account.iam_arn("instance-profile/*")],
            sid="ReadInstanceProfiles",
        ),
        allow(["eks:DescribeCluster"], [account.arn("eks", f"cluster/{cluster_name}")], sid="FindTheCluster"),
    ]


def _any(account: Account, kinds: tuple[str, ...]) -> list[str]:
    return [f"arn:{account.partition}:ec2:{account.region}:*:{kind}/*" for kind in kinds]
