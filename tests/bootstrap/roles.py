"""The rights that the two roles of the workflows have in an account, beside reading and writing Pulumi's state."""

from __future__ import annotations

from bootstrap import deploy_permissions, permissions
from infra.aws.account import Account
from spec.iam_policy import Statement

ACCOUNT = Account(id="123456789012", partition="aws", region="us-west-2", caller_arn="arn:aws:iam::123456789012:role/x")
PREVIEW = permissions.read(ACCOUNT)


def deploy(*clusters: str) -> list[Statement]:
    """The role that deploys, into clusters of others too."""
    return [*PREVIEW, *(one for found in deploy_permissions.deploy(ACCOUNT, clusters).values() for one in found)]


DEPLOY = deploy()
