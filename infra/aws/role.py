"""Roles of a stack. All have its permissions boundary, and its path unless they have a fixed name."""

from __future__ import annotations

from collections.abc import Mapping

import pulumi
import pulumi_aws as aws

from infra.aws.existing import none_if
from infra.aws.stack import Stack
from spec.names import role_path
from spec.problem import Problem, SettingsError


def role(
    name: str,
    stack: Stack,
    *,
    description: str,
    trust: pulumi.Input[str],
    tags: Mapping[str, str],
    opts: pulumi.ResourceOptions,
    role_name: str | None = None,
) -> aws.iam.Role:
    """Register a role. With a `role_name`, which contains the stack's name, it has no path, so its ARN is known before."""
    return aws.iam.Role(
        name,
        name=role_name,
        path=role_path(stack.name) if role_name is None else None,
        description=description,
        assume_role_policy=trust,
        permissions_boundary=stack.boundary_arn,
        tags=tags,
        # A role from before roles had a path keeps its ARN, because a new ARN would replace the cluster and its node groups.
        opts=pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(ignore_changes=["path"])),
    )


def require_boundary(stack: Stack, file: str) -> None:
    """Raise SettingsError about the stack's `file` if the account lacks the boundary of the stack's roles."""
    arn = stack.boundary_arn
    if arn is not None and none_if("couldn't find resource", lambda: aws.iam.get_policy(arn=arn)) is None:
        problem = (
            f"the account has no policy {arn}, which bounds the stack's roles; run `make state REGION={stack.region}` as an "
            "administrator, or set permissionsBoundary: false in an account that GitHub's workflows do not deploy to"
        )
        raise SettingsError(file, [Problem("permissionsBoundary", problem)])
