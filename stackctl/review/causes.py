"""Which replacement makes others necessary.

The engine's events do not say what a resource depends on. They do show that the new value of a property is not known yet,
and what its old value is: where that is the id of a resource that is replaced too, or what only that one can have given, it
is the cause.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stackctl.review.changes import at, is_unknown


@dataclass(frozen=True)
class Replacement:
    """A resource that is replaced: its id until now, its states as the engine has them, and the properties that force it."""

    urn: str
    id: str
    old: Mapping[str, Any]
    new: Mapping[str, Any]
    reasons: Sequence[str]


def roots(replacements: Sequence[Replacement]) -> dict[str, str]:
    """URN -> URN of the replacement that all began with; those that are causes themselves are left out."""
    owners = _owners(replacements)
    causes = {one.urn: cause for one in replacements if (cause := _cause(one, owners)) is not None}
    return {urn: root for urn in causes if (root := _root(urn, causes)) != urn}


def _owners(replacements: Sequence[Replacement]) -> dict[str, str]:
    """Old value -> URN of the resource that it comes from; what several may have given is nobody's."""
    given: dict[str, set[str]] = {}
    for one in replacements:
        taken = set(_texts(one.old.get("inputs")))
        for text in set(_texts(one.old.get("outputs"))) - taken:
            given.setdefault(text, set()).add(one.urn)
    ids: dict[str, set[str]] = {}
    for one in replacements:
        if one.id and one.id not in _handed_on(one):
            ids.setdefault(one.id, set()).add(one.urn)
    # Whose id it is has given it, whatever else has it among its outputs.
    return {text: urns.pop() for text, urns in (given | ids).items() if len(urns) == 1}


def _handed_on(one: Replacement) -> set[str]:
    """Return what the resource has from another one: old values of inputs that are not known now.

    AWS identifies the settings of a bucket by the bucket's name, and the policies of a queue by its URL.
    """
    old, new = one.old.get("inputs") or {}, one.new.get("inputs") or {}
    return {text for key, value in old.items() if any(map(is_unknown, _texts(new.get(key)))) for text in _texts(value)}


def _cause(one: Replacement, owners: Mapping[str, str]) -> str | None:
    old, new = one.old.get("inputs") or {}, one.new.get("inputs") or {}
    for path in sorted(one.reasons):
        if not any(map(is_unknown, _texts(at(new, path)))):
            continue
        for text in _texts(at(old, path)):
            owner = owners.get(text)
            if owner is not None and owner != one.urn:
                return owner
    return None


def _root(urn: str, causes: Mapping[str, str]) -> str:
    """Return where the chain of causes begins; a circle, which the engine cannot make, begins at its first by name."""
    seen = [urn]
    while (cause := causes.get(seen[-1])) is not None:
        if cause in seen:
            return min(seen[seen.index(cause) :])
        seen.append(cause)
    return seen[-1]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for member in value.values():
            yield from _texts(member)
    elif isinstance(value, list):
        for member in value:
            yield from _texts(member)
