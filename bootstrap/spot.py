"""The role that EC2 needs in an account before anybody starts spot instances there."""

from __future__ import annotations

from collections.abc import Mapping

import pulumi
import pulumi_aws as aws

_SERVICE = "spot.amazonaws.com"


def spot_role(name: str, tags: Mapping[str, str]) -> None:
    """Register EC2's service-linked role for spot instances, unless the account got it from somebody else.

    Nobody makes it for Karpenter, whose nodes then never start ("The provided credentials do not have permission to create
    the service-linked role"): https://karpenter.sh/docs/troubleshooting/. An account has one, and a second is refused. It
    outlives the stack, since others may have come to use it.
    """
    found = aws.iam.get_roles(path_prefix=f"/aws-service-role/{_SERVICE}/")
    if all(aws.iam.get_role(name=role).tags.items() >= tags.items() for role in found.names):
        aws.iam.ServiceLinkedRole(
            name,
            aws_service_name=_SERVICE,
            tags=tags,
            opts=pulumi.ResourceOptions(retain_on_delete=True),
        )
