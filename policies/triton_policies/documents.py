"""IAM policy documents: the statements of a text of JSON, with every list written out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from triton_policies.reading import Property

_BOUNDING = tuple(
    f"{many}{operator}"
    for many in ("", "ForAnyValue:")
    for operator in ("StringEquals", "StringEqualsIgnoreCase", "StringLike", "ArnEquals", "ArnLike", "IpAddress")
)
"""Operators that are false where the key is missing: `…IfExists`, `ForAllValues:…` and `Null` let such requests pass."""
_EVERYTHING = ("", "arn", "0.0.0.0/0", "0")
"""Remains of `*`, `arn:*`, `0.0.0.0/0` and `::/0` without the wildcards and separators at their ends."""
_WHO = (
    "aws:PrincipalAccount",
    "aws:PrincipalArn",
    "aws:PrincipalOrgID",
    "aws:PrincipalOrgPaths",
    "aws:SourceAccount",
    "aws:SourceArn",
    "aws:SourceIp",
    "aws:SourceOrgID",
    "aws:SourceOrgPaths",
    "aws:SourceVpc",
    "aws:SourceVpce",
    "aws:userid",
    "kms:CallerAccount",
    "s3:DataAccessPointAccount",
    "s3:DataAccessPointArn",
)
"""Condition keys that say who asks, or from where (S3 user guide, "The meaning of public"; KMS)."""

_ACCOUNT = re.compile(r"(?:arn:[^:]*:[^:]*:[^:]*:)?(\d{12})(?::.*)?")
"""An account by its id, or of an ARN."""
_OF_ACCOUNTS = ("aws:PrincipalAccount", "aws:PrincipalArn", "aws:SourceAccount", "aws:SourceArn", "kms:CallerAccount")
"""Condition keys that say whose account asks."""

Condition = tuple[str, str, tuple[str, ...]]
"""Operator, key and values; operator and key in lower case."""


@dataclass(frozen=True)
class Statement:
    """One statement. `principals` by kind (`AWS`, `Service`, `Federated`); `*` alone counts as `AWS`."""

    at: Property
    allows: bool
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    principals: Mapping[str, tuple[str, ...]]
    conditions: tuple[Condition, ...]

    @property
    def everybody(self) -> bool:
        """Return whether anyone at all is meant."""
        return "*" in self.principals.get("AWS", ())

    @property
    def public(self) -> bool:
        """Return whether it allows anyone at all, with no condition on who that is: TLS or a date keeps nobody out.

        All but a few (NotPrincipal) are anyone too.
        """
        anyone = self.everybody or self.at["NotPrincipal"].given
        return self.allows and anyone and not any(self.bounded_by(key) for key in _WHO)

    @property
    def accounts(self) -> frozenset[str]:
        """Return the AWS accounts that it names, as principals or in conditions on who asks."""
        named = [who for of_kind in self.principals.values() for who in of_kind]
        named += [value for key in _OF_ACCOUNTS for value in self.values(key, *_BOUNDING)]
        return frozenset(found[1] for one in named if (found := _ACCOUNT.fullmatch(one)))

    @property
    def principal_path(self) -> str:
        """Return the path of the property that says who is meant."""
        return self.at["NotPrincipal" if self.at["NotPrincipal"].given else "Principal"].path

    @property
    def anyone(self) -> str:
        """Return in words how the statement means everybody."""
        return "leaves out a few" if self.at["NotPrincipal"].given else "is *"

    def bounded_by(self, key: str) -> bool:
        """Return whether the condition key has to be there and to be like something that is not everything."""
        values = self.values(key, *_BOUNDING)
        return bool(values) and not any(value.strip("*?:/") in _EVERYTHING for value in values)

    def values(self, key: str, *operators: str) -> tuple[str, ...]:
        """Return the values that the key is compared with by the conditions of the operators; without operators by all."""
        wanted = {operator.lower() for operator in operators}
        return tuple(
            value
            for operator, name, values in self.conditions
            if name == key.lower() and (not wanted or operator in wanted)
            for value in values
        )

    @property
    def compared(self) -> tuple[str, ...]:
        """Return the condition keys, in lower case."""
        return tuple(key for _, key, _ in self.conditions)


def statements(text: Property) -> Iterator[Statement]:
    """Yield the statements of a document; none where the text is no document. Raises NotKnownYet, WrittenTwice."""
    found = text.document()["Statement"]
    for statement in found.elements or ([found] if found.entries else []):
        yield Statement(
            at=statement,
            allows=statement["Effect"].value == "Allow",
            actions=_texts(statement["Action"]),
            resources=_texts(statement["Resource"]),
            principals=_principals(statement["Principal"]),
            conditions=tuple(
                (operator.lower(), key.lower(), _texts(values))
                for operator, keys in statement["Condition"].entries.items()
                for key, values in keys.entries.items()
            ),
        )


def refuses_plain_http(statement: Statement, service: str) -> bool:
    """Return whether the statement denies everybody everything of the service unless it comes through TLS."""
    return (
        not statement.allows
        and statement.everybody
        and bool({"*", f"{service}:*"} & set(statement.actions))
        and statement.values("aws:SecureTransport", "Bool") == ("false",)
        and set(statement.compared) == {"aws:securetransport"}
    )


def _principals(principal: Property) -> Mapping[str, tuple[str, ...]]:
    if not principal.entries:
        return {"AWS": _texts(principal)}
    return {kind: _texts(who) for kind, who in principal.entries.items()}


def _texts(value: Property) -> tuple[str, ...]:
    plain = value.value
    if plain is None:
        return ()
    many = plain if isinstance(plain, list) else [plain]
    return tuple(str(one).lower() if isinstance(one, bool) else str(one) for one in many)
