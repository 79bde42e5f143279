"""Trust policies: who may assume a role, and whether a role trusts whom it is given to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from twin.aws.base import documents, late
from twin.aws.base.clients import Clients
from twin.aws.base.errors import HandlerError
from twin.aws.base.lookup import or_none

_SERVICE = re.compile(r"[a-z0-9.-]+\.amazonaws\.com(\.cn)?")
_ROLE_ARN = re.compile(r"arn:aws[a-z-]*:iam::(?P<account>\d{12}):role/(?:.*/)?(?P<name>[\w+=,.@-]+)")
_PROVIDER_ARN = re.compile(r"arn:aws[a-z-]*:iam::\d{12}:oidc-provider/(?P<issuer>.+)")
_AWS_PRINCIPAL = re.compile(r"\*|\d{12}|arn:aws[a-z-]*:(iam|sts)::\d{12}:.+")


def role_of(clients: Clients, arn: str) -> dict[str, Any] | None:
    """Return the role of this ARN in the account, or None."""
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
    """Return the role; HandlerError when it does not exist or does not let ``service`` assume it.

    ``retried``: the provider tries again, for two minutes, what AWS refuses of a new role (its ``propagationTimeout``).
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
    """Refuse the principals and conditions that ``update_assume_role_policy`` of moto lets through.

    IAM refuses malformed and unknown principals. A provider that does not exist, or a condition on another issuer than
    the trusted one, is accepted by IAM but never matches; it is refused here because it can only be a mistake.
    """
    for statement in documents.statements(document):
        principal = statement.get("Principal", {})
        if not isinstance(principal, dict):
            raise HandlerError(f"trust policy: principal {principal!r} opens the role to everyone")
        for kind, values in principal.items():
            for value in documents.as_list(values):
                _check_principal(clients, kind, value)
                if kind == "Federated":
                    _check_conditions(statement, value)


def check_aws_principal(clients: Clients, value: str, where: str) -> None:
    """Refuse a malformed AWS principal, and a role of this account that does not exist (AWS: invalid principal)."""
    if not _AWS_PRINCIPAL.fullmatch(value):
        raise HandlerError(f"{where}: {value!r} is not an account id or a principal's ARN")
    match = _ROLE_ARN.fullmatch(value)
    if match and match["account"] == clients.account_id and role_of(clients, value) is None:
        raise HandlerError(f"{where}: principal {value} does not exist")


def _check_principal(clients: Clients, kind: str, value: str) -> None:
    if kind == "Service" and not _SERVICE.fullmatch(value):
        raise HandlerError(f"trust policy: {value!r} is not a service principal (<service>.amazonaws.com)")
    if kind == "AWS":
        check_aws_principal(clients, value, "trust policy")
    if kind == "Federated":
        if not _PROVIDER_ARN.fullmatch(value):
            raise HandlerError(f"trust policy: {value!r} is not the ARN of an OIDC provider")
        iam = clients("iam")
        if or_none(iam.get_open_id_connect_provider, OpenIDConnectProviderArn=value) is None:
            raise HandlerError(f"trust policy: OIDC provider {value} does not exist")
    if kind not in ("Service", "AWS", "Federated"):
        raise HandlerError(f"trust policy: {kind!r} is not a kind of principal (AWS, Service, Federated)")


def _check_conditions(statement: dict[str, Any], provider_arn: str) -> None:
    match = _PROVIDER_ARN.fullmatch(provider_arn)
    issuer = match["issuer"] if match else ""
    for keys in statement.get("Condition", {}).values():
        for key in keys:
            if not key.startswith((f"{issuer}:", "aws:")):
                raise HandlerError(f"trust policy: condition key {key} does not belong to the trusted issuer {issuer}")
    if "sts:AssumeRoleWithWebIdentity" not in documents.as_list(statement.get("Action")):
        raise HandlerError("trust policy: a Federated OIDC principal needs the action sts:AssumeRoleWithWebIdentity")


def _trusted_services(document: dict[str, Any]) -> Iterator[str]:
    for statement in documents.statements(document):
        if statement.get("Effect") == "Allow" and isinstance(statement.get("Principal"), dict):
            yield from documents.as_list(statement["Principal"].get("Service"))
