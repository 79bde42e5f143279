"""Resources and stacks in the form for rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from triton_policies.reading import NotKnownYet, Property


@dataclass(frozen=True)
class Resource:
    """One resource.

    In rules about single resources, `properties` are the inputs, checked by the provider. In rules about a stack they are
    the outputs: the real ones at `up`, and the known ones in a preview.
    """

    type: str
    name: str
    urn: str
    properties: Property
    inputs: Property | None = None
    """The program's inputs, also in rules about a stack; None there for a resource that the run does not register."""
    known: bool = True
    """False for a resource without properties, for example if a preview does not know its provider's configuration yet.

    Only for rules about a stack.
    """
    protected: bool = False
    ignored: frozenset[str] = frozenset()
    """Paths whose changes the program ignores, so the inputs have the previous values. Only in rules about a stack."""
    provider: str | None = None
    """The logical name of its provider; None if Pulumi does not report it."""
    sources: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Property -> URNs of the resources that its value comes from. Only for rules about a stack."""
    region: str | None = None
    """The region of its stack's configuration; None if unknown. Only for rules about single resources."""
    accounts: frozenset[str] = frozenset()
    """The AWS accounts of its stack's configuration; empty if unknown. Only for rules about single resources."""

    def __getitem__(self, path: str) -> Property:
        """Return the property at a dotted path. Raises NotKnownYet for each property of an unknown resource."""
        if not self.known:
            raise NotKnownYet(path, self.name)
        return self.properties.at(path)

    @property
    def stack(self) -> str:
        """Return the stack's name."""
        return stack_of(self.urn)


@dataclass(frozen=True)
class Stack:
    """All resources of a stack."""

    resources: tuple[Resource, ...]

    def of(self, *types: str) -> Iterator[Resource]:
        """Yield the resources of the types."""
        return (resource for resource in self.resources if resource.type in types)

    def names(self, user: Resource, key: str, used: Resource) -> bool:
        """Return whether the property `key` of `user` refers to `used`.

        It compares the source of the value, which a preview also knows, or else the known ids. Raises NotKnownYet if neither
        is known.
        """
        sources = user.sources.get(key, ())
        if sources and (used.urn in sources or not user.known):
            return used.urn in sources
        values = user[key]
        if not values.known and not sources:
            raise NotKnownYet(values.path)
        ids = {_known(used[name]) for name in ("id", "arn", "name", "bucket", "url")} - {None}
        named = [values, *values.elements] if values.known else []
        return any(_known(value) in ids for value in named)

    def any_names(self, users: Iterable[Resource], key: str, used: Resource) -> bool:
        """Return whether one of `users` refers to `used`. Raises NotKnownYet if none is known to, but one may."""
        unknown = None
        for user in users:
            try:
                if self.names(user, key, used):
                    return True
            except NotKnownYet as missing:
                unknown = missing
        if unknown is not None:
            raise unknown
        return False

    @property
    def urn(self) -> str:
        """Return the URN of one of its resources, which contains the stack's name; "" for an empty stack."""
        return self.resources[0].urn if self.resources else ""


def stack_of(urn: str) -> str:
    """Return the stack name in a URN (`urn:pulumi:<stack>::<project>::…`)."""
    return urn.split("::", maxsplit=1)[0].rpartition(":")[2]


def _known(value: Property) -> Any:
    if not value.known:
        return None
    raw = value.value if not value.elements and not value.entries else None
    return raw if isinstance(raw, str) and raw else None
