"""A recording for review: sorted, with the sources of generated ids in place of the ids."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tests.system.component.engine.recording import Recording, Registration

_GENERATED = re.compile(
    r"\b(?:acl|eipalloc|eipassoc|eni|fl|fs|igw|lt|nat|pg|pl|rtb|rtbassoc|sg|sgr|subnet|vpc|vpce)-[0-9a-f]{8,}\b"
    r"|\b(?<!:certificate/)(?:eks-)?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"
    r"|\boidc\.eks\.[a-z0-9-]+\.amazonaws\.com/id/[A-Za-z0-9]+"
    r"|(?P<kept>(?<=:certificate/)[0-9a-f-]{36}|^[0-9a-f]{8}$)"
)
"""Ids that AWS generates. Names from the program or from autonaming stay, because people review them. Certificates that the
stack names stay too, and words of 8 hex digits, unless a resource outputs them (a mount name of FSx).
"""


def content(recording: Recording) -> dict[str, Any]:
    """Return the snapshot: `resources`, by logical name their inputs and options, and `exports`."""
    sources = _sources(recording)
    names = {item.urn: _label(item) for item in recording.registrations}
    entries = {_label(item): _entry(item, names, sources) for item in recording.registrations}
    return {"resources": dict(sorted(entries.items())), "exports": _named(recording.exports, sources)}


def _label(registration: Registration) -> str:
    return f"{registration.name} ({registration.type})"


def _entry(item: Registration, names: Mapping[str, str], sources: Mapping[str, str]) -> dict[str, Any]:
    entry: dict[str, Any] = {"inputs": _documents(_named(item.checked or item.inputs, sources))}
    if item.parent in names:
        entry["parent"] = names[item.parent]
    if item.provider:
        urn = item.provider.rpartition("::")[0]
        entry["provider"] = names.get(urn, urn)
    if item.aliases:
        entry["aliases"] = [urn.split("::", 2)[2] for urn in item.aliases]
    if item.depends_on:
        entry["dependsOn"] = sorted(names.get(urn, urn) for urn in item.depends_on)
    if item.ignore_changes:
        entry["ignoreChanges"] = list(item.ignore_changes)
    for option in ("protect", "retain_on_delete", "delete_before_replace"):
        if getattr(item, option):
            entry[option] = True
    return entry


def _sources(recording: Recording) -> dict[str, str]:
    """Generated id -> ``<logical name.output>``: the resource with that id, else the first by name that outputs it."""
    found: dict[str, tuple[bool, str]] = {}
    for item in recording.registrations:
        own = set(_generated(item.inputs))
        for key, value in {**item.outputs, "id": item.id}.items():
            for generated in _generated(value):
                rank = (key != "id", f"<{item.name}.{key}>")
                if generated not in own and rank < found.get(generated, (True, "~")):
                    found[generated] = rank
    return {generated: label for generated, (_, label) in found.items()}


def _generated(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for member in value.values():
            yield from _generated(member)
    elif isinstance(value, list):
        for member in value:
            yield from _generated(member)
    elif isinstance(value, str):
        yield from (match[0] for match in _GENERATED.finditer(value))


def _named(value: Any, sources: Mapping[str, str]) -> Any:
    if isinstance(value, Mapping):
        return {_named(key, sources): _named(member, sources) for key, member in value.items()}
    if isinstance(value, list):
        return [_named(member, sources) for member in value]
    if isinstance(value, str):
        return _GENERATED.sub(lambda match: sources.get(match[0], match["kept"] or "<unknown id>"), value)
    return value


def _documents(value: Any) -> Any:
    """Return JSON texts (policies, add-on values) as objects, so a change of one statement is a one-line diff."""
    if isinstance(value, Mapping):
        return {key: _documents(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_documents(member) for member in value]
    if isinstance(value, str) and value.startswith("{"):
        try:
            return {"(JSON text)": json.loads(value)}
        except ValueError:
            return value
    return value
