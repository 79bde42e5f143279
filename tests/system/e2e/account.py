"""The twin's AWS account, read from outside the program."""

from typing import Any

import boto3

REGION = "us-west-2"
OTHERS_ROLES = {"platform-admin", "triton-rollouts", "AWSServiceRoleForEC2Spot"}
"""Roles that exist before a stack: the roles that it names, and EC2's role for spot (`make state`)."""
BOUNDARY = "triton-eks-boundary-"
"""The permissions boundary of a stack's roles: `bootstrap` creates it and never deletes it."""


def client(url: str, service: str) -> Any:
    """Return a boto3 client for the moto server at `url`."""
    return boto3.client(
        service, region_name=REGION, endpoint_url=url, aws_access_key_id="test", aws_secret_access_key="test"
    )


def leftovers(url: str) -> dict[str, list[str]]:
    """Return all resources that a fresh account does not have, by kind, without empty kinds."""
    ec2, iam, kms = client(url, "ec2"), client(url, "iam"), client(url, "kms")
    vpcs = [v["VpcId"] for v in ec2.describe_vpcs()["Vpcs"] if not v["IsDefault"]]
    found = {
        "vpc": vpcs,
        "subnet": [s["SubnetId"] for s in ec2.describe_subnets()["Subnets"] if s["VpcId"] in vpcs],
        "elastic ip": [a["AllocationId"] for a in ec2.describe_addresses()["Addresses"]],
        "nat gateway": [n["NatGatewayId"] for n in ec2.describe_nat_gateways()["NatGateways"] if n["State"] != "deleted"],
        "vpc endpoint": [
            e["VpcEndpointId"] for e in ec2.describe_vpc_endpoints()["VpcEndpoints"] if e["State"] != "deleted"
        ],
        "launch template": [t["LaunchTemplateId"] for t in ec2.describe_launch_templates()["LaunchTemplates"]],
        "flow log": [f["FlowLogId"] for f in ec2.describe_flow_logs()["FlowLogs"]],
        "cluster": client(url, "eks").list_clusters()["clusters"],
        "auto scaling group": [
            g["AutoScalingGroupName"] for g in client(url, "autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"]
        ],
        "role": [r["RoleName"] for r in iam.list_roles()["Roles"] if r["RoleName"] not in OTHERS_ROLES],
        "policy": [
            p["PolicyName"] for p in iam.list_policies(Scope="Local")["Policies"] if not p["PolicyName"].startswith(BOUNDARY)
        ],
        "oidc provider": [p["Arn"] for p in iam.list_open_id_connect_providers()["OpenIDConnectProviderList"]],
        "kms key": [k["KeyId"] for k in kms.list_keys()["Keys"] if _in_use(kms, k["KeyId"])],
        "kms alias": [a["AliasName"] for a in kms.list_aliases()["Aliases"] if not a["AliasName"].startswith("alias/aws/")],
        "bucket": [b["Name"] for b in client(url, "s3").list_buckets()["Buckets"]],
        "log group": [g["logGroupName"] for g in client(url, "logs").describe_log_groups()["logGroups"]],
    }
    return {kind: names for kind, names in found.items() if names}


def _in_use(kms: Any, key: str) -> bool:
    metadata = kms.describe_key(KeyId=key)["KeyMetadata"]
    return metadata["KeyState"] != "PendingDeletion" and metadata["KeyManager"] == "CUSTOMER"
