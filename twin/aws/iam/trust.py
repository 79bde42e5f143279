"""Trust policies: check who may assume a role and whether a role trusts its user."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from twin.aws.base import documents, late
from twin.aws.base.clients import Clients
from twin.aws.base.errors import HandlerError
from twin.aws.base.lookup import or_none

_ROLE_ARN = re.compile(r"arn:aws[a-z-]*:iam::(?P<account>\d{12}):role/(?:.*/)?(?P<name>[\w+=,.@-]+)")


def role_of(clients: Clients, arn: str) -> dict[str, Any] | None:
    """Return the account's role with this ARN, or None."""
    match = _ROLE_ARN.fullmatch(arn)
    if match is None:
        return None
    answer = or_none(clients("iam").get_role, RoleName=match["name"])
    if answer is None or answer["Role"]["Arn"] != arn:
        return None
    role: dict[str, Any] = answer["Role"]
    return role


def require_role(
    clients: Clients, arn: str, wanted_by: str, *, service: str | None = None, retried: bool = True
) -> dict[str, Any]:
    """Return the role. Raises HandlerError if it does not exist or ``service`` may not assume it.

    ``retried``: if AWS refuses a new role, the provider retries for two minutes (its ``propagationTimeout``).
    """
    role = role_of(clients, arn)
    if role is None:
        raise HandlerError(f"{wanted_by}: IAM role {arn} does not exist")
    if service is not None and service not in set(_trusted_services(role["AssumeRolePolicyDocument"])):
        raise HandlerError(f"{wanted_by}: the trust policy of {arn} does not allow {service} to assume it")
    if retried:
        late.wait(clients, "iam", role["CreateDate"])
    else:
        require_effective(clients, arn)
    return role


def require_effective(clients: Clients, arn: str) -> None:
    """Refuse a role of the account that is so new that other services do not know it yet."""
    role = role_of(clients, arn)
    if role is not None and late.left(clients, "iam", role["CreateDate"]) > 0:
        raise HandlerError(f"the role {arn} is not known yet: IAM has not told of it")


def check_principals(clients: Clients, document: dict[str, Any]) -> None:
    """Refuse a nonexistent principal of this account, as IAM, KMS, S3 and SQS do; moto accepts any.

    "Invalid principal in policy": https://repost.aws/knowledge-center/iam-principal-policy.
    """
    for statement in documents.statements(document):
        principal = statement.get("Principal")
        for arn in documents.as_list(principal.get("AWS")) if isinstance(principal, dict) else ():
            match = _ROLE_ARN.fullmatch(arn)
            if match and match["account"] == clients.account_id and role_of(clients, arn) is None:
                raise HandlerError(f"Invalid principal in policy: {arn} does not exist")


def _trusted_services(document: dict[str, Any]) -> Iterator[str]:
    for statement in documents.statements(document):
        if statement.get("Effect") == "Allow" and isinstance(statement.get("Principal"), dict):
            yield from documents.as_list(statement["Principal"].get("Service"))
