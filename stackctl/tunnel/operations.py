"""List every AWS operation that this package calls itself, with its IAM action. `aws ssm start-session` asks for its own."""

from __future__ import annotations

from stackctl.account.read_only import Operations

OPERATIONS: Operations = {
    "sts": {"GetCallerIdentity": "sts:GetCallerIdentity"},
    "eks": {"DescribeCluster": "eks:DescribeCluster"},
    "ec2": {"DescribeInstances": "ec2:DescribeInstances"},
}
