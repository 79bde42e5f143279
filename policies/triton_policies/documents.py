"""IAM policy documents: the statements of a text of JSON, with every list written out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from triton_policies.reading import Property

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
        """Whether anyone at all is meant."""
        return "*" in self.principals.get("AWS", ())

    def values(self, key: str, *operators: str) -> tuple[str, ...]:
        """What the condition key is compared with, by any of the operators; without operators by whichever."""
        wanted = {operator.lower() for operator in operators}
        return tuple(
            value
            for operator, name, values in self.conditions
            if name == key.lower() and (not wanted or operator in wanted)
            for value in values
        )

    @property
    def compared(self) -> tuple[str, ...]:
        """The condition keys, in lower case."""
        return tuple(key for _, key, _ in self.conditions)


def statements(text: Property) -> Iterator[Statement]:
    """The statements of a document; none in what is no document. Raises NotKnownYet."""
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
    """Whether the statement denies everybody everything of the service unless it comes through TLS."""
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
