"""The AWS account and region that a deployment goes to."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi_aws as aws

from spec.names import dns_suffix


@dataclass(frozen=True)
class Account:
    """Account, region and partition of the stack, which ARNs begin with, and who runs the program."""

    id: str
    partition: str
    region: str
    caller_arn: str
    """Who runs the program, as STS says it."""

    def arn(self, service: str, resource: str) -> str:
        """Return the ARN of a regional `resource` of `service` in this account."""
        return f"arn:{self.partition}:{service}:{self.region}:{self.id}:{resource}"

    def iam_arn(self, resource: str) -> str:
        """Return the ARN of a resource of IAM, which has no region."""
        return f"arn:{self.partition}:iam::{self.id}:{resource}"

    def host(self, service: str) -> str:
        """Return the name of a service's host in the region, by which KMS and CloudWatch Logs know it too."""
        return f"{service}.{self.region}.{dns_suffix(self.partition)}"

    def managed_policy(self, name: str) -> str:
        """Return the ARN of an IAM policy that AWS maintains."""
        return f"arn:{self.partition}:iam::aws:policy/{name}"


def current(region: str) -> Account:
    """Ask AWS whose credentials the engine runs with."""
    identity = aws.get_caller_identity()
    return Account(id=identity.account_id, partition=identity.arn.split(":")[1], region=region, caller_arn=identity.arn)
