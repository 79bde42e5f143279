"""The contents of the fake account, as AWS's describe calls return them."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from unittest import mock

from moto import mock_aws
from moto.iam.models import IAMBackend, ManagedPolicy
from moto.s3.models import FakeBucket
from moto.s3.responses import S3Response

from spec.names import permissions_boundary
from spec.settings.cluster import Cluster
from twin.aws import moto_encryption
from twin.aws.base.clients import Clients
from twin.aws.iam import trust
from twin.engine.account import topics_in

Description = dict[str, Any]

_MANAGED_POLICIES: list[ManagedPolicy] = []
_reads_policy = FakeBucket._log_permissions_enabled_policy


def _lets_logs_in(target_bucket: Any, target_prefix: str | None) -> bool:
    """Check as moto does; moto itself raises AttributeError at a statement for everyone (`"Principal": "*"`)."""
    document = json.loads(target_bucket.policy or '{"Statement": []}')
    document["Statement"] = [one for one in document["Statement"] if isinstance(one.get("Principal"), dict)]
    policy = json.dumps(document).encode()
    return _reads_policy(
        SimpleNamespace(policy=policy, name=target_bucket.name, partition=target_bucket.partition), target_prefix
    )


@contextmanager
def fresh_account() -> Iterator[None]:
    """Create an empty AWS account in this process, with AWS's managed policies and without its thousands of images."""
    managed_policies: Any = {"iam": {"load_aws_managed_policies": True}}
    read = IAMBackend._init_aws_policies

    # moto creates an IAM for each AWS partition, then creates all of them again. Each reads the policies, which takes
    # 0.06 s of CPU. Once is enough: an account changes only the number of roles that have a policy.
    def of_one_partition(backend: IAMBackend) -> list[ManagedPolicy]:
        if backend.partition != "aws":
            return []
        if not _MANAGED_POLICIES:
            _MANAGED_POLICIES.extend(read(backend))
        return [copy.copy(policy) for policy in _MANAGED_POLICIES]

    with (
        mock.patch.dict(os.environ, {"MOTO_EC2_LOAD_DEFAULT_AMIS": "false"}),
        mock.patch.object(IAMBackend, "_init_aws_policies", of_one_partition),
        mock.patch.object(S3Response, "get_bucket_encryption", moto_encryption.get_bucket_encryption),
        mock.patch.object(S3Response, "put_object", moto_encryption.put_object),
        mock.patch.object(FakeBucket, "_log_permissions_enabled_policy", staticmethod(_lets_logs_in)),
        mock_aws(config=managed_policies),
    ):
        try:
            yield
        finally:
            IAMBackend._init_aws_policies = lambda backend: []  # type: ignore[method-assign]


@dataclass(frozen=True)
class Account:
    """Facts that tests read after the moto account is gone."""

    security_groups: list[Description]
    auto_scaling_groups: list[Description]
    node_groups: list[Description]
    buckets: list[str]


def seed_roles(clients: Clients, cluster: Cluster) -> None:
    """Create the missing roles of this account that have an access entry; they trust the account itself."""
    root = f"arn:{clients.partition}:iam::{clients.account_id}:root"
    statement = {"Effect": "Allow", "Principal": {"AWS": root}, "Action": "sts:AssumeRole"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    for arn in (*cluster.admin_role_arns, *cluster.view_role_arns, *cluster.rollout_role_arns):
        head, _, path = arn.partition(":role/")
        if f":{clients.account_id}" in head and trust.role_of(clients, arn) is None:
            folder, _, name = path.rpartition("/")
            clients("iam").create_role(
                RoleName=name, Path=f"/{folder}/" if folder else "/", AssumeRolePolicyDocument=document
            )


def seed_topics(clients: Clients, config: Description) -> None:
    """Create the SNS topics that a stack's configuration names."""
    for name in topics_in(config):
        clients("sns").create_topic(Name=name)


def observe(clients: Clients) -> Account:
    """Describe the present account."""
    eks = clients("eks")
    groups = []
    for cluster in eks.list_clusters()["clusters"]:
        for name in eks.list_nodegroups(clusterName=cluster)["nodegroups"]:
            groups.append(eks.describe_nodegroup(clusterName=cluster, nodegroupName=name)["nodegroup"])
    return Account(
        security_groups=clients("ec2").describe_security_groups()["SecurityGroups"],
        auto_scaling_groups=clients("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"],
        node_groups=groups,
        buckets=[bucket["Name"] for bucket in clients("s3").list_buckets()["Buckets"]],
    )


def living(clients: Clients) -> dict[str, list[str]]:
    """Return ids of everything that a destroy has to remove, by kind. Excludes the region's default VPC and its parts.

    Excludes records that AWS itself retains for a while: deleted NAT gateways and endpoints, terminated instances, keys
    pending deletion.
    """
    ec2, iam = clients("ec2"), clients("iam")
    default = {vpc["VpcId"] for vpc in ec2.describe_vpcs()["Vpcs"] if vpc["IsDefault"]}
    in_vpcs = {
        "vpc": ec2.describe_vpcs()["Vpcs"],
        "subnet": ec2.describe_subnets()["Subnets"],
        "security group": ec2.describe_security_groups()["SecurityGroups"],
        "route table": ec2.describe_route_tables()["RouteTables"],
        "interface": ec2.describe_network_interfaces()["NetworkInterfaces"],
        "nat": [item for item in ec2.describe_nat_gateways()["NatGateways"] if item["State"] != "deleted"],
        "endpoint": [item for item in ec2.describe_vpc_endpoints()["VpcEndpoints"] if item["State"] != "deleted"],
    }
    found = {kind: [_id(item) for item in items if item.get("VpcId") not in default] for kind, items in in_vpcs.items()}
    instances = [item for each in ec2.describe_instances()["Reservations"] for item in each["Instances"]]
    keys = [clients("kms").describe_key(KeyId=key["KeyId"])["KeyMetadata"] for key in clients("kms").list_keys()["Keys"]]
    parameters = clients("ssm").get_paginator("get_parameters_by_path").paginate(Path="/twin", Recursive=True)
    found |= {
        "internet gateway": [_id(item) for item in ec2.describe_internet_gateways()["InternetGateways"]],
        "address": [item["AllocationId"] for item in ec2.describe_addresses()["Addresses"]],
        "flow log": [item["FlowLogId"] for item in ec2.describe_flow_logs()["FlowLogs"]],
        "launch template": [item["LaunchTemplateId"] for item in ec2.describe_launch_templates()["LaunchTemplates"]],
        "instance": [item["InstanceId"] for item in instances if item["State"]["Name"] != "terminated"],
        "key": [key["KeyId"] for key in keys if key["KeyManager"] == "CUSTOMER" and key["KeyState"] != "PendingDeletion"],
        "alias": [item["AliasName"] for item in clients("kms").list_aliases()["Aliases"] if "TargetKeyId" in item],
        "log group": [item["logGroupName"] for item in clients("logs").describe_log_groups()["logGroups"]],
        "role": [item["RoleName"] for item in iam.list_roles()["Roles"]],
        # The permissions boundary and the administrators' roles exist before the stack.
        "policy": [
            name
            for name in (item["PolicyName"] for item in iam.list_policies(Scope="Local")["Policies"])
            if not name.startswith(permissions_boundary(""))
        ],
        "oidc provider": [item["Arn"] for item in iam.list_open_id_connect_providers()["OpenIDConnectProviderList"]],
        "bucket": [item["Name"] for item in clients("s3").list_buckets()["Buckets"]],
        "cluster": clients("eks").list_clusters()["clusters"],
        "auto scaling group": [
            item["AutoScalingGroupName"]
            for item in clients("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"]
        ],
        "record": [item["Name"] for page in parameters for item in page["Parameters"]],
    }
    return {kind: ids for kind, ids in found.items() if ids}


def _id(item: Description) -> str:
    own = ("NetworkInterfaceId", "NatGatewayId", "VpcEndpointId", "InternetGatewayId", "RouteTableId", "GroupId")
    for key in (*own, "SubnetId", "VpcId"):
        if key in item:
            return str(item[key])
    raise KeyError(f"no id in {sorted(item)}")
