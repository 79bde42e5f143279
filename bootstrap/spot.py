"""The role that EC2 requires in an account before it can start spot instances."""

from __future__ import annotations

from collections.abc import Mapping

import pulumi
import pulumi_aws as aws

_SERVICE = "spot.amazonaws.com"


def spot_role(name: str, tags: Mapping[str, str]) -> None:
    """Register EC2's service-linked role for spot instances, unless the account already has it from elsewhere.

    Karpenter does not create it, and its nodes then never start ("The provided credentials do not have permission to create
    the service-linked role"): https://karpenter.sh/docs/troubleshooting/. An account has one, and a second is refused. It is
    kept when the stack is destroyed, because others may use it by then.
    """
    found = aws.iam.get_roles(path_prefix=f"/aws-service-role/{_SERVICE}/")
    if all(aws.iam.get_role(name=role).tags.items() >= tags.items() for role in found.names):
        aws.iam.ServiceLinkedRole(
            name,
            aws_service_name=_SERVICE,
            tags=tags,
            opts=pulumi.ResourceOptions(retain_on_delete=True),
        )
