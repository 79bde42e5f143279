"""A runner for GitHub jobs inside the VPC: a CodeBuild project, which reaches a private API server."""

from __future__ import annotations

from collections.abc import Iterable

import pulumi
import pulumi_aws as aws

from infra.aws.account import Account
from infra.aws.cluster_access import ClusterAccess
from infra.aws.log_group import log_group
from infra.aws.role import role
from spec.iam_policy import allow, document, service_trust
from spec.names import runner_log_group, runner_project
from spec.settings.api_access import Runner

_IMAGE = "aws/codebuild/standard:7.0"
"""Ubuntu 22.04: https://docs.aws.amazon.com/codebuild/latest/userguide/ec2-compute-images.html."""
_LONGEST_JOB_MINUTES = 150
"""Longer than any workflow job including its start: if CodeBuild stops a job, it leaves a lock and a partial deployment."""
_HTTPS = 443
_WORKFLOWS = ("deploy", "drift")
"""Workflows of main that need the API server. GitHub reports deploy-stack.yml's jobs under deploy, which calls it."""


class GithubRunner(pulumi.ComponentResource):
    """The CodeBuild project. GitHub starts it for jobs of certain accounts and workflows, and it stops with the job.

    Its role creates network interfaces in the private subnets, writes its log and reads the repository. It cannot deploy: a
    job assumes the workflows' role, as on GitHub's own runners.
    https://docs.aws.amazon.com/codebuild/latest/userguide/action-runner-overview.html
    """

    def __init__(
        self,
        name: str,
        cluster: ClusterAccess,
        runner: Runner,
        *,
        kms_key_arn: pulumi.Input[str],
        retention_days: int,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("triton:runner:GithubRunner", name, None, opts)
        stack, child = cluster.stack, pulumi.ResourceOptions(parent=self)
        project_name, group_name = runner_project(cluster.known_name), runner_log_group(cluster.known_name)
        logs = log_group(self, name, group_name, stack.tags, retention_days=retention_days, kms_key_arn=kms_key_arn)
        group = aws.ec2.SecurityGroup(
            f"{name}-security-group",
            vpc_id=cluster.vpc_id,
            description="Jobs of GitHub in the VPC",
            tags=stack.named(project_name),
            opts=child,
        )
        ways = [
            aws.vpc.SecurityGroupEgressRule(
                f"{name}-out",
                security_group_id=group.id,
                description="GitHub, registries and AWS",
                ip_protocol="tcp",
                from_port=_HTTPS,
                to_port=_HTTPS,
                cidr_ipv4="0.0.0.0/0",
                tags=stack.tags,
                opts=child,
            ),
            aws.vpc.SecurityGroupIngressRule(
                f"{name}-to-api",
                security_group_id=cluster.security_group_id,
                description="Kubernetes API, from the runner",
                ip_protocol="tcp",
                from_port=_HTTPS,
                to_port=_HTTPS,
                referenced_security_group_id=group.id,
                tags=stack.tags,
                opts=child,
            ),
        ]
        service_role = role(
            f"{name}-role",
            stack,
            description=f"Runner of {stack.cluster_name}",
            trust=service_trust(
                "codebuild.amazonaws.com",
                source_account=stack.account.id,
                source_arn=stack.account.arn("codebuild", f"project/{project_name}"),
            ),
            tags=stack.named(project_name),
            opts=child,
        )
        subnets = list(cluster.node_subnet_ids.values())
        granted = aws.iam.RolePolicy(
            f"{name}-policy",
            role=service_role.name,
            policy=pulumi.Output.all(*subnets).apply(
                lambda ids: policy(stack.account, [str(id) for id in ids], group_name, runner.connection_arn)
            ),
            opts=child,
        )
        project = aws.codebuild.Project(
            f"{name}-project",
            name=project_name,
            description=f"Jobs of {runner.repository} that reach {stack.cluster_name}",
            service_role=service_role.arn,
            build_timeout=_LONGEST_JOB_MINUTES,
            artifacts=aws.codebuild.ProjectArtifactsArgs(type="NO_ARTIFACTS"),
            environment=aws.codebuild.ProjectEnvironmentArgs(
                compute_type="BUILD_GENERAL1_MEDIUM", image=_IMAGE, type="LINUX_CONTAINER"
            ),
            logs_config=aws.codebuild.ProjectLogsConfigArgs(
                cloudwatch_logs=aws.codebuild.ProjectLogsConfigCloudwatchLogsArgs(group_name=logs.name, status="ENABLED")
            ),
            source=aws.codebuild.ProjectSourceArgs(
                type="GITHUB",
                location=f"https://github.com/{runner.repository}.git",
                auth=aws.codebuild.ProjectSourceAuthArgs(type="CODECONNECTIONS", resource=runner.connection_arn),
            ),
            vpc_config=aws.codebuild.ProjectVpcConfigArgs(
                vpc_id=cluster.vpc_id, subnets=subnets, security_group_ids=[group.id]
            ),
            tags=stack.tags,
            # CodeBuild tests the role's VPC permissions when the project is created.
            opts=pulumi.ResourceOptions(parent=self, depends_on=[granted, *ways]),
        )
        aws.codebuild.Webhook(
            f"{name}-webhook",
            project_name=project.name,
            filter_groups=[
                aws.codebuild.WebhookFilterGroupArgs(
                    filters=[
                        aws.codebuild.WebhookFilterGroupFilterArgs(type=kind, pattern=pattern)
                        for kind, pattern in (
                            ("EVENT", "WORKFLOW_JOB_QUEUED"),
                            ("ACTOR_ACCOUNT_ID", _exactly(runner.actors)),
                            ("WORKFLOW_NAME", _exactly(_WORKFLOWS)),
                        )
                    ]
                )
            ],
            opts=child,
        )
        self.register_outputs({})


def _exactly(values: Iterable[object]) -> str:
    """Return a pattern that matches exactly these values: without anchors, CodeBuild accepts 1234 if 123 is listed."""
    return f"^({'|'.join(map(str, values))})$"


def policy(account: Account, subnet_ids: list[str], log_group: str, connection_arn: str) -> str:
    """Return the permissions that CodeBuild itself needs for a job, as JSON text.

    https://docs.aws.amazon.com/codebuild/latest/userguide/auth-and-access-control-iam-identity-based-access-control.html
    """
    interfaces = account.arn("ec2", "network-interface/*")
    subnets = [account.arn("ec2", f"subnet/{id}") for id in subnet_ids]
    return document(
        allow(
            ["logs:CreateLogStream", "logs:PutLogEvents"],
            [f"{account.arn('logs', f'log-group:{log_group}')}:*"],
            sid="WriteLog",
        ),
        allow(
            [
                "ec2:DescribeDhcpOptions",
                "ec2:DescribeNetworkInterfaces",
                "ec2:DescribeSecurityGroups",
                "ec2:DescribeSubnets",
                "ec2:DescribeVpcs",
            ],
            ["*"],
            sid="SeeTheVpc",
        ),
        allow(
            ["ec2:CreateNetworkInterface"],
            [interfaces, account.arn("ec2", "security-group/*"), *subnets],
            sid="BeInTheVpc",
        ),
        allow(["ec2:DeleteNetworkInterface"], [interfaces], sid="LeaveTheVpc"),
        allow(
            ["ec2:CreateNetworkInterfacePermission"],
            [interfaces],
            sid="UseInterfaces",
            condition={
                "StringEquals": {"ec2:AuthorizedService": "codebuild.amazonaws.com"},
                "ArnEquals": {"ec2:Subnet": subnets},
            },
        ),
        allow(
            ["codeconnections:GetConnection", "codeconnections:GetConnectionToken"],
            [connection_arn],
            sid="AskForTheRepository",
        ),
    )
