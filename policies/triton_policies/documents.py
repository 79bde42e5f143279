"""IAM policy documents: the statements of a JSON text, with every single value converted to a list."""

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
"""Operators that are false if the key is missing. `…IfExists`, `ForAllValues:…` and `Null` would allow such requests."""
_EVERYTHING = ("", "arn", "0.0.0.0/0", "0")
"""`*`, `arn:*`, `0.0.0.0/0` and `::/0` after removing the wildcards and separators at their ends."""
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
"""Condition keys for the caller or its network (S3 user guide, "The meaning of public"; KMS)."""

_ACCOUNT = re.compile(r"(?:arn:[^:]*:[^:]*:[^:]*:)?(\d{12})(?::.*)?")
"""An account, as an id or in an ARN."""
_OF_ACCOUNTS = ("aws:PrincipalAccount", "aws:PrincipalArn", "aws:SourceAccount", "aws:SourceArn", "kms:CallerAccount")
"""Condition keys for the caller's account."""

Condition = tuple[str, str, tuple[str, ...]]
"""Operator, key and values; operator and key are in lower case."""


@dataclass(frozen=True)
class Statement:
    """One statement. `principals` are by kind (`AWS`, `Service`, `Federated`); a plain `*` counts as `AWS`."""

    at: Property
    allows: bool
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    principals: Mapping[str, tuple[str, ...]]
    conditions: tuple[Condition, ...]

    @property
    def everybody(self) -> bool:
        """Return whether the principals include everyone."""
        return "*" in self.principals.get("AWS", ())

    @property
    def public(self) -> bool:
        """Return whether it allows everyone without a condition on the caller. A condition on TLS or a date excludes no
        caller.

        NotPrincipal, everyone except a few, counts as everyone too.
        """
        anyone = self.everybody or self.at["NotPrincipal"].given
        return self.allows and anyone and not any(self.bounded_by(key) for key in _WHO)

    @property
    def accounts(self) -> frozenset[str]:
        """Return the AWS accounts in its principals and in its conditions on the caller."""
        named = [who for of_kind in self.principals.values() for who in of_kind]
        named += [value for key in _OF_ACCOUNTS for value in self.values(key, *_BOUNDING)]
        return frozenset(found[1] for one in named if (found := _ACCOUNT.fullmatch(one)))

    @property
    def principal_path(self) -> str:
        """Return the path of the property with the principals."""
        return self.at["NotPrincipal" if self.at["NotPrincipal"].given else "Principal"].path

    @property
    def anyone(self) -> str:
        """Return a description of how the statement includes everyone."""
        return "leaves out a few" if self.at["NotPrincipal"].given else "is *"

    def bounded_by(self, key: str) -> bool:
        """Return whether a condition requires the key and limits it to less than everything."""
        values = self.values(key, *_BOUNDING)
        return bool(values) and not any(value.strip("*?:/") in _EVERYTHING for value in values)

    def values(self, key: str, *operators: str) -> tuple[str, ...]:
        """Return the values compared with the key by conditions with these operators; without operators by all
        conditions."""
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
    """Yield the statements of a document; none if the text is no document. Raises NotKnownYet, WrittenTwice."""
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
    """Return whether the statement denies everyone all actions of the service without TLS."""
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
