"""The deploy role against what the program can register and what a teardown asks: the actions that it takes."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from typing import Any

import pulumi
import pulumi_aws as aws
import pytest

from bootstrap import deploy_permissions, permissions
from infra.aws.account import Account
from stackctl.account.read_only import Operations
from stackctl.orphans import operations as orphans
from stackctl.preflight import operations as preflight
from tests.paths import ROOT
from tests.repository.workflows import workflow_files

SNAPSHOTS = ROOT / "tests" / "system" / "component" / "snapshots"
ACCOUNT = Account(id="123456789012", partition="aws", region="us-west-2", caller_arn="arn:aws:iam::123456789012:role/x")

NEEDED: Mapping[str, str] = {
    "autoscaling/tag:Tag": "autoscaling:CreateOrUpdateTags autoscaling:DeleteTags autoscaling:DescribeTags",
    "budgets/budget:Budget": "budgets:ModifyBudget budgets:ViewBudget budgets:TagResource",
    "cloudwatch/eventRule:EventRule": "events:PutRule events:DeleteRule events:DescribeRule events:TagResource",
    "cloudwatch/eventTarget:EventTarget": "events:PutTargets events:RemoveTargets events:ListTargetsByRule",
    "cloudwatch/logGroup:LogGroup": "logs:CreateLogGroup logs:DeleteLogGroup logs:PutRetentionPolicy logs:DescribeLogGroups",
    "cloudwatch/metricAlarm:MetricAlarm": "cloudwatch:PutMetricAlarm cloudwatch:DeleteAlarms cloudwatch:DescribeAlarms",
    "costexplorer/anomalyMonitor:AnomalyMonitor": "ce:CreateAnomalyMonitor ce:DeleteAnomalyMonitor ce:GetAnomalyMonitors",
    "costexplorer/anomalySubscription:AnomalySubscription": (
        "ce:CreateAnomalySubscription ce:DeleteAnomalySubscription ce:GetAnomalySubscriptions"
    ),
    "ec2/defaultSecurityGroup:DefaultSecurityGroup": "ec2:RevokeSecurityGroupIngress ec2:RevokeSecurityGroupEgress",
    "ec2/eip:Eip": "ec2:AllocateAddress ec2:ReleaseAddress ec2:DescribeAddresses ec2:DescribeAddressesAttribute",
    "ec2/flowLog:FlowLog": "ec2:CreateFlowLogs ec2:DeleteFlowLogs ec2:DescribeFlowLogs",
    "ec2/internetGateway:InternetGateway": (
        "ec2:CreateInternetGateway ec2:AttachInternetGateway ec2:DetachInternetGateway ec2:DeleteInternetGateway"
    ),
    "ec2/launchTemplate:LaunchTemplate": (
        "ec2:CreateLaunchTemplate ec2:CreateLaunchTemplateVersion ec2:ModifyLaunchTemplate ec2:RunInstances"
    ),
    "ec2/natGateway:NatGateway": "ec2:CreateNatGateway ec2:DeleteNatGateway ec2:DescribeNatGateways",
    "ec2/route:Route": "ec2:CreateRoute ec2:ReplaceRoute ec2:DeleteRoute",
    "ec2/routeTable:RouteTable": "ec2:CreateRouteTable ec2:DeleteRouteTable ec2:DescribeRouteTables",
    "ec2/routeTableAssociation:RouteTableAssociation": "ec2:AssociateRouteTable ec2:DisassociateRouteTable",
    "ec2/securityGroup:SecurityGroup": "ec2:CreateSecurityGroup ec2:DeleteSecurityGroup ec2:RevokeSecurityGroupEgress",
    "ec2/subnet:Subnet": "ec2:CreateSubnet ec2:DeleteSubnet ec2:ModifySubnetAttribute",
    "ec2/vpc:Vpc": "ec2:CreateVpc ec2:DeleteVpc ec2:ModifyVpcAttribute ec2:DescribeVpcAttribute",
    "ec2/vpcEndpoint:VpcEndpoint": "ec2:CreateVpcEndpoint ec2:DeleteVpcEndpoints ec2:ModifyVpcEndpoint",
    "eks/accessEntry:AccessEntry": "eks:CreateAccessEntry eks:DeleteAccessEntry eks:DescribeAccessEntry",
    "eks/accessPolicyAssociation:AccessPolicyAssociation": "eks:AssociateAccessPolicy eks:DisassociateAccessPolicy",
    "eks/addon:Addon": "eks:CreateAddon eks:UpdateAddon eks:DeleteAddon eks:DescribeAddon",
    "eks/cluster:Cluster": "eks:CreateCluster eks:DeleteCluster eks:UpdateClusterConfig iam:PassRole",
    "eks/nodeGroup:NodeGroup": "eks:CreateNodegroup eks:DeleteNodegroup eks:UpdateNodegroupVersion",
    "eks/podIdentityAssociation:PodIdentityAssociation": (
        "eks:CreatePodIdentityAssociation eks:DeletePodIdentityAssociation eks:DescribePodIdentityAssociation"
    ),
    "fsx/dataRepositoryAssociation:DataRepositoryAssociation": (
        "fsx:CreateDataRepositoryAssociation fsx:DeleteDataRepositoryAssociation fsx:DescribeDataRepositoryAssociations "
        "fsx:UpdateDataRepositoryAssociation fsx:TagResource iam:CreateServiceLinkedRole iam:PutRolePolicy"
    ),
    "fsx/lustreFileSystem:LustreFileSystem": (
        "fsx:CreateFileSystem fsx:DeleteFileSystem fsx:DescribeFileSystems fsx:UpdateFileSystem fsx:TagResource "
        "fsx:ListTagsForResource iam:CreateServiceLinkedRole"
    ),
    "iam/instanceProfile:InstanceProfile": (
        "iam:CreateInstanceProfile iam:DeleteInstanceProfile iam:AddRoleToInstanceProfile iam:RemoveRoleFromInstanceProfile"
    ),
    "iam/openIdConnectProvider:OpenIdConnectProvider": (
        "iam:CreateOpenIDConnectProvider iam:DeleteOpenIDConnectProvider iam:GetOpenIDConnectProvider"
    ),
    "iam/role:Role": "iam:CreateRole iam:DeleteRole iam:UpdateAssumeRolePolicy iam:GetRole iam:TagRole iam:PassRole",
    "iam/rolePolicy:RolePolicy": "iam:PutRolePolicy iam:DeleteRolePolicy iam:GetRolePolicy",
    "iam/rolePolicyAttachment:RolePolicyAttachment": "iam:AttachRolePolicy iam:DetachRolePolicy",
    "kms/alias:Alias": "kms:CreateAlias kms:DeleteAlias kms:ListAliases",
    "kms/key:Key": "kms:CreateKey kms:ScheduleKeyDeletion kms:EnableKeyRotation kms:PutKeyPolicy kms:DescribeKey",
    "s3/bucket:Bucket": "s3:CreateBucket s3:DeleteBucket s3:ListBucket s3:PutBucketTagging",
    "s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration": (
        "s3:PutLifecycleConfiguration s3:GetLifecycleConfiguration"
    ),
    "s3/bucketOwnershipControls:BucketOwnershipControls": "s3:PutBucketOwnershipControls s3:GetBucketOwnershipControls",
    "s3/bucketPolicy:BucketPolicy": "s3:PutBucketPolicy s3:DeleteBucketPolicy s3:GetBucketPolicy",
    "s3/bucketPublicAccessBlock:BucketPublicAccessBlock": "s3:PutBucketPublicAccessBlock s3:GetBucketPublicAccessBlock",
    "s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration": (
        "s3:PutEncryptionConfiguration s3:GetEncryptionConfiguration"
    ),
    "s3/bucketVersioning:BucketVersioning": "s3:PutBucketVersioning s3:GetBucketVersioning",
    "sqs/queue:Queue": "sqs:CreateQueue sqs:DeleteQueue sqs:SetQueueAttributes sqs:GetQueueAttributes sqs:TagQueue",
    "sqs/queuePolicy:QueuePolicy": "sqs:SetQueueAttributes",
    "sqs/redriveAllowPolicy:RedriveAllowPolicy": "sqs:SetQueueAttributes",
    "vpc/securityGroupEgressRule:SecurityGroupEgressRule": "ec2:AuthorizeSecurityGroupEgress",
    "vpc/securityGroupIngressRule:SecurityGroupIngressRule": "ec2:AuthorizeSecurityGroupIngress",
}


def registered() -> set[str]:
    """The AWS types of all stacks, those of the component `eks.Cluster` among them."""
    return {
        label.rpartition(" (aws:")[2].removesuffix(")")
        for file in SNAPSHOTS.glob("*.json")
        for label in json.loads(file.read_text(encoding="utf-8"))["resources"]
        if " (aws:" in label
    }


def written() -> set[str]:
    """The AWS types that the program names anywhere (`aws.MODULE.TYPE`), those of options that no stack has too."""
    found = set()
    for file in (ROOT / "infra").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            match node:
                case ast.Attribute(value=ast.Attribute(value=ast.Name(id="aws"), attr=module), attr=name):
                    named: Any = getattr(getattr(aws, module), name)
                    if pulumi.CustomResource in getattr(named, "__mro__", ()):
                        found.add(named.pulumi_type.removeprefix("aws:"))
    return found


def allowed() -> set[str]:
    statements = [
        *permissions.read(ACCOUNT),
        *(one for found in deploy_permissions.deploy(ACCOUNT).values() for one in found),
    ]
    return {action for one in statements if one["Effect"] == "Allow" for action in one["Action"]}


def test_the_table_has_every_type_that_the_program_can_register() -> None:
    """A new type needs actions here, and in bootstrap/deploy_permissions.py."""
    assert {"fsx/lustreFileSystem:LustreFileSystem"} <= written() - registered()
    assert (registered() | written()) ^ NEEDED.keys() == set()


def test_file_systems_are_read_by_previews_too() -> None:
    reading = {action for one in permissions.read(ACCOUNT) for action in one["Action"]}
    assert {"fsx:DescribeFileSystems", "fsx:DescribeDataRepositoryAssociations", "fsx:ListTagsForResource"} <= reading


def test_fsx_makes_the_roles_that_it_takes_and_gives_its_own_the_bucket() -> None:
    statements = {one["Sid"]: one for one in deploy_permissions.deploy(ACCOUNT)["identity"]}
    services = statements["ServicesOwnRoles"]["Condition"]["StringEquals"]["iam:AWSServiceName"]
    assert {"fsx.amazonaws.com", "s3.data-source.lustre.fsx.amazonaws.com"} <= set(services)
    assert statements["LustreReadsBuckets"]["Resource"] == [
        "arn:aws:iam::123456789012:role/aws-service-role/s3.data-source.lustre.fsx.amazonaws.com/*"
    ]


def actions_of(operations: Operations) -> set[str]:
    return {action for known in operations.values() for action in known.values()}


def test_a_teardown_may_ask_what_is_left() -> None:
    """`make destroy`, which destroy.yml runs, ends with every finder of `stackctl.orphans`: one refusal fails it."""
    assert actions_of(orphans.OPERATIONS) - allowed() == set()


def test_no_workflow_runs_what_neither_role_may_ask() -> None:
    """Preflight is run by people, with the policy of docs/preflight.md."""
    assert actions_of(preflight.OPERATIONS) - allowed()
    scripts = [step.script for step in workflow_files.steps() if step.script]
    assert [script for script in scripts if "preflight" in script] == []


@pytest.mark.parametrize("type_", sorted(NEEDED))
def test_a_deployment_may_make_and_take_away(type_: str) -> None:
    assert set(NEEDED[type_].split()) - allowed() == set()
