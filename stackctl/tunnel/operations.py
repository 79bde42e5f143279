"""List the AWS operations that this package calls, each with its IAM action.

`aws ssm start-session` needs its own permissions.
"""

from __future__ import annotations

from stackctl.account.read_only import Operations

OPERATIONS: Operations = {
    "sts": {"GetCallerIdentity": "sts:GetCallerIdentity"},
    "eks": {"DescribeCluster": "eks:DescribeCluster"},
    "ec2": {"DescribeInstances": "ec2:DescribeInstances"},
}
