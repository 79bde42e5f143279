"""The AWS account and region of a deployment."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi_aws as aws

from spec.names import dns_suffix


@dataclass(frozen=True)
class Account:
    """Account, region and partition of the stack, and the caller of the program."""

    id: str
    partition: str
    region: str
    caller_arn: str
    """The caller's ARN from STS."""

    def arn(self, service: str, resource: str) -> str:
        """Return the ARN of a regional `resource` of `service` in this account."""
        return f"arn:{self.partition}:{service}:{self.region}:{self.id}:{resource}"

    def iam_arn(self, resource: str) -> str:
        """Return the ARN of an IAM resource, which has no region."""
        return f"arn:{self.partition}:iam::{self.id}:{resource}"

    def host(self, service: str) -> str:
        """Return a service's host name in the region. KMS and CloudWatch Logs use it as the service's name."""
        return f"{service}.{self.region}.{dns_suffix(self.partition)}"

    def managed_policy(self, name: str) -> str:
        """Return the ARN of an IAM policy that AWS maintains."""
        return f"arn:{self.partition}:iam::aws:policy/{name}"


def current(region: str) -> Account:
    """Return the account of the engine's credentials."""
    identity = aws.get_caller_identity()
    return Account(id=identity.account_id, partition=identity.arn.split(":")[1], region=region, caller_arn=identity.arn)
