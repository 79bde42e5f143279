"""IAM roles for service accounts, with the combined effect of EKS's webhook and STS.

On EKS, the webhook mounts a token and sets `AWS_ROLE_ARN` and `AWS_WEB_IDENTITY_TOKEN_FILE`. The AWS SDK in the container
sends the token to STS, and STS checks it against the role's trust policy. Triton's S3 client cannot use another STS
endpoint, so here the runner does the exchange at moto. It passes the credentials in `AWS_ACCESS_KEY_ID`,
`AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN`. moto gives credentials to every caller, so this module checks the trust
policy, as strictly as STS. The token is a real one of the twin's API server. Its `iss` is the API server's
(control_plane.ISSUER). It replaces the issuer that EKS reports for the cluster, which is known only once the cluster
exists.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from twin.aws.iam import authorization

ROLE_ANNOTATION = "eks.amazonaws.com/role-arn"
AUDIENCE_ANNOTATION = "eks.amazonaws.com/audience"
EXPIRATION_ANNOTATION = "eks.amazonaws.com/token-expiration"
DEFAULT_AUDIENCE = "sts.amazonaws.com"
DEFAULT_EXPIRATION_SECONDS = 86400
_ACTION = "sts:AssumeRoleWithWebIdentity"


class IdentityRefused(Exception):
    """AWS would refuse the role to this pod; the text names the failed condition, and the actual value."""


@dataclass(frozen=True)
class Claims:
    """The claims of a token: issuer (https://…), subject, audiences."""

    issuer: str
    subject: str
    audiences: tuple[str, ...]


@dataclass(frozen=True)
class Provider:
    """An IAM OIDC provider: its ARN and the audiences (client IDs) that it accepts."""

    arn: str
    client_ids: tuple[str, ...]


@dataclass(frozen=True)
class Caller:
    """The caller that a trust policy is checked against: principal, actions, and the values of condition keys.

    `presents`: what carries the values, for messages.
    """

    name: str
    kind: str
    principal: str
    actions: tuple[str, ...]
    values: Mapping[str, tuple[str, ...]]
    presents: str


def claims(token: str) -> Claims:
    """Read a token that the API server has just signed; the signature is not checked again."""
    payload = token.split(".")[1]
    content = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    audience = content.get("aud", [])
    return Claims(content["iss"], content["sub"], (audience,) if isinstance(audience, str) else tuple(audience))


def check_trust(policy: Mapping[str, Any], presented: Claims, providers: Sequence[Provider], role: str) -> None:
    """Raise IdentityRefused unless a statement of the role's trust policy allows the token, and none denies it."""
    host = presented.issuer.removeprefix("https://")
    provider = next((p for p in providers if p.arn.partition(":oidc-provider/")[2] == host), None)
    if provider is None:
        raise IdentityRefused(f"IAM has no OIDC provider for the cluster's issuer {presented.issuer}")
    if not set(presented.audiences) & set(provider.client_ids):
        raise IdentityRefused(
            f"the token's audience {', '.join(presented.audiences)} is not a client ID of {provider.arn} "
            f"({', '.join(provider.client_ids) or 'it has none'})"
        )
    values = {f"{host}:sub": (presented.subject,), f"{host}:aud": presented.audiences, f"{host}:iss": (presented.issuer,)}
    check_policy(policy, Caller(presented.subject, "Federated", provider.arn, (_ACTION,), values, "the token"), role)


def check_policy(policy: Mapping[str, Any], caller: Caller, role: str) -> None:
    """Raise IdentityRefused unless a statement of the role's trust policy allows the caller, and none denies it."""
    reasons = []
    allowed = False
    for number, statement in enumerate(_listed(policy.get("Statement"))):
        try:
            reason = _statement_mismatch(statement, caller)
        except ValueError as error:
            raise IdentityRefused(f"statement {number} of the trust policy of {role}: {error}") from error
        if reason is None and statement.get("Effect") == "Deny":
            raise IdentityRefused(f"statement {number} of the trust policy of {role} denies {caller.name}")
        allowed = allowed or (reason is None and statement.get("Effect") == "Allow")
        if reason is not None:
            reasons.append(f"statement {number}: {reason}")
    if not allowed:
        why = "; ".join(reasons) or "it has no statement that allows anything"
        raise IdentityRefused(f"the trust policy of {role} does not let {caller.name} assume it: {why}")


def _statement_mismatch(statement: Mapping[str, Any], caller: Caller) -> str | None:
    actions = _listed(statement.get("Action"))
    for needed in caller.actions:
        if not authorization.is_any(needed, actions):
            return f"its action is {', '.join(map(str, actions))}, not {needed}"
    principal = statement.get("Principal")
    trusted = _listed(principal.get(caller.kind)) if isinstance(principal, Mapping) else []
    if caller.principal not in trusted:
        return f"its {caller.kind.lower()} principal is {', '.join(map(str, trusted)) or 'absent'}, not {caller.principal}"
    for operator, conditions in (statement.get("Condition") or {}).items():
        for key, expected in conditions.items():
            actual = caller.values.get(key)
            if actual is None:
                return f"{operator} {key}: {caller.presents} has none"
            patterns = [str(value) for value in _listed(expected)]
            if not any(authorization.holds(operator, value, patterns) for value in actual):
                return f"{operator} {key} wants {' or '.join(patterns)}, and {caller.presents} has {', '.join(actual)}"
    return None


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]
