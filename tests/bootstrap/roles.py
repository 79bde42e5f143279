"""The rights that the two roles of the workflows have in an account, beside reading and writing Pulumi's state."""

from __future__ import annotations

from collections.abc import Sequence

from bootstrap import deploy_permissions, permissions
from infra.aws.account import Account
from spec.iam_policy import Statement

ACCOUNT = Account(id="123456789012", partition="aws", region="us-west-2", caller_arn="arn:aws:iam::123456789012:role/x")


def preview(*zones: str) -> list[Statement]:
    """The role that previews, with the names of gateways in these hosted zones."""
    return [*permissions.read(ACCOUNT), *permissions.read_domains(ACCOUNT, zones)]


PREVIEW = preview("Z1234567890")


def deploy(*clusters: str, zones: Sequence[str] = ("Z1234567890",)) -> list[Statement]:
    """The role that deploys, into clusters of others too, with names in these hosted zones."""
    return [
        *permissions.read(ACCOUNT),
        *(one for found in deploy_permissions.deploy(ACCOUNT, clusters).values() for one in found),
        *deploy_permissions.domains(ACCOUNT, zones),
    ]


DEPLOY = deploy()
