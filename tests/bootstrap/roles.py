"""The account permissions of the workflows' roles, in addition to Pulumi's state."""

from __future__ import annotations

from collections.abc import Sequence

from bootstrap import deploy_permissions, permissions
from bootstrap.bounds import Scope
from infra.aws.account import Account
from spec.iam_policy import Statement

ACCOUNT = Account(id="123456789012", partition="aws", region="us-west-2", caller_arn="arn:aws:iam::123456789012:role/x")
CONNECTION = "arn:aws:codeconnections:eu-west-1:123456789012:connection/01234567-89ab-cdef-0123-456789abcdef"


def preview(*zones: str) -> list[Statement]:
    """Return the preview role's statements, with gateway names in these hosted zones."""
    return [*permissions.read(ACCOUNT), *permissions.read_domains(ACCOUNT, zones)]


PREVIEW = preview("Z1234567890")


def scope(stack: str, environment: str | None = None, *, account: Account = ACCOUNT, clusters: Sequence[str] = ()) -> Scope:
    """Return the scope of the deploy role of an environment with one stack and a runner."""
    earlier = {"staging": "dev", "prod": "staging"}.get(environment or stack)
    return Scope(
        account=account,
        environment=environment or stack,
        stacks=(stack,),
        clusters=tuple(clusters),
        connections=(CONNECTION, CONNECTION.replace("eu-west-1", "us-west-2")),
        before=None if earlier is None else (earlier, (earlier,)),
    )


def writes(reach: Scope, zones: Sequence[str] = ("Z1234567890",)) -> list[Statement]:
    """Return the deploy role's statements for a scope, without read-only ones, with names in these hosted zones."""
    return [
        *(one for found in deploy_permissions.deploy(reach).values() for one in found),
        *deploy_permissions.access(reach),
        *deploy_permissions.domains(reach, zones),
        *deploy_permissions.promote(reach, ()),
    ]


def deploy(stack: str = "prod", *clusters: str, zones: Sequence[str] = ("Z1234567890",)) -> list[Statement]:
    """Return the statements of the role that deploys the stack, also into others' clusters, with names in these hosted
    zones.
    """
    return [*permissions.read(ACCOUNT), *writes(scope(stack, clusters=clusters), zones)]


DEPLOY = deploy()
