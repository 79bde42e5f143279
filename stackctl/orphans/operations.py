"""List the AWS operations that this package may call, each with its IAM action.

`stackctl.account.read_only` refuses all others.
"""

from __future__ import annotations

from stackctl.account.read_only import Operations

OPERATIONS: Operations = {
    "sts": {"GetCallerIdentity": "sts:GetCallerIdentity"},
    "ec2": {
        operation: f"ec2:{operation}"
        for operation in (
            "DescribeAddresses",
            "DescribeInstances",
            "DescribeNatGateways",
            "DescribeNetworkInterfaces",
            "DescribeSecurityGroups",
            "DescribeSnapshots",
            "DescribeVolumes",
            "DescribeVpcEndpoints",
            "DescribeVpcs",
        )
    },
    "elbv2": {
        "DescribeLoadBalancers": "elasticloadbalancing:DescribeLoadBalancers",
        "DescribeTags": "elasticloadbalancing:DescribeTags",
        "DescribeTargetGroups": "elasticloadbalancing:DescribeTargetGroups",
    },
    "eks": {
        operation: f"eks:{operation}"
        for operation in ("DescribeCluster", "DescribeNodegroup", "ListClusters", "ListNodegroups")
    },
    "fsx": {"DescribeFileSystems": "fsx:DescribeFileSystems"},
    "logs": {"DescribeLogGroups": "logs:DescribeLogGroups"},
    "kms": {"DescribeKey": "kms:DescribeKey"},
    "resourcegroupstaggingapi": {"GetResources": "tag:GetResources"},
}
