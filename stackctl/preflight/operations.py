"""All AWS operations that this package may call, with their IAM actions. `stackctl.account.read_only` refuses others."""

from __future__ import annotations

from stackctl import eks_health
from stackctl.account.read_only import Operations

OPERATIONS: Operations = {
    "sts": {"GetCallerIdentity": "sts:GetCallerIdentity"},
    "freetier": {"GetAccountPlanState": "freetier:GetAccountPlanState"},
    "service-quotas": {
        "GetServiceQuota": "servicequotas:GetServiceQuota",
        "GetAWSDefaultServiceQuota": "servicequotas:GetAWSDefaultServiceQuota",
    },
    "ec2": {
        operation: f"ec2:{operation}"
        for operation in (
            "DescribeAddresses",
            "DescribeAvailabilityZones",
            "DescribeCapacityReservations",
            "DescribeImages",
            "DescribeInstanceTypeOfferings",
            "DescribeInstances",
            "DescribeInternetGateways",
            "DescribeNatGateways",
            "DescribeRouteTables",
            "DescribeSubnets",
            "DescribeVpcAttribute",
            "DescribeVpcEndpointServices",
            "DescribeVpcEndpoints",
            "DescribeVpcs",
        )
    },
    **eks_health.OPERATIONS,
    "eks": {
        **eks_health.OPERATIONS["eks"],
        "DescribeAddonVersions": "eks:DescribeAddonVersions",
        "DescribeCluster": "eks:DescribeCluster",
        "DescribeClusterVersions": "eks:DescribeClusterVersions",
        "ListAccessEntries": "eks:ListAccessEntries",
        "ListClusters": "eks:ListClusters",
    },
    "iam": {"GetOpenIDConnectProvider": "iam:GetOpenIDConnectProvider", "GetRole": "iam:GetRole"},
    "route53": {
        "GetHostedZone": "route53:GetHostedZone",
        "ListResourceRecordSets": "route53:ListResourceRecordSets",
    },
    "secretsmanager": {"DescribeSecret": "secretsmanager:DescribeSecret"},
    "ssm": {"GetParameter": "ssm:GetParameter"},
    "ecr": {"DescribeImages": "ecr:DescribeImages"},
    # HeadObject distinguishes missing from forbidden objects only for callers with permission to list the bucket.
    "s3": {"HeadBucket": "s3:ListBucket", "HeadObject": "s3:GetObject", "GetObject": "s3:GetObject"},
}
