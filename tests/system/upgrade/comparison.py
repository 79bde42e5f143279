"""Lists the resources that the present program would replace or delete, from its snapshot and another program's.

The twin's providers know which change replaces a resource. A replacement is reported only at its cause: the engine's own
preview lists the dependents (the subnets of a replaced VPC).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from stackctl.review import consequences
from twin.aws import table
from twin.plugins import differences, kube_rules, releases
from twin.plugins.aws import AwsProvider
from twin.plugins.kubernetes import KubernetesProvider

Action = Literal["replace", "delete"]
Entry = Mapping[str, Any]

_PROVIDER = "pulumi:providers:"
_IDENTITY = {_PROVIDER + provider.package: provider.identity for provider in (AwsProvider, KubernetesProvider)}
_AUTONAMED = re.compile(r"-[0-9a-f]{7}\Z")
_MUTABLE_OPTIONS = {"ConfigMap": "enableConfigMapMutable", "Secret": "enableSecretMutable"}


@dataclass(frozen=True, order=True)
class Finding:
    """A lost resource, as `name (type)`. `because`: the properties that force a replacement."""

    resource: str
    action: Action
    because: tuple[str, ...] = ()

    @property
    def consequence(self) -> str:
        """Return the consequence of the loss; "" if there is none."""
        type_ = _type(self.resource)
        return consequences.of(self.action, type_) or consequences.of("replace", type_) or ""

    def __str__(self) -> str:
        reasons = f" because of {', '.join(self.because)}" if self.because else ""
        return f"{self.action} {self.resource}{reasons}: {self.consequence}"


class Snapshot:
    """Registrations of one run of the program, by URN without stack and project."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        self._entries: Mapping[str, Entry] = content["resources"]
        self.labels = {self._urn(label): label for label in self._entries}
        self.aliases = {urn: tuple(self.entry(urn).get("aliases", ())) for urn in self.labels}

    def entry(self, urn: str) -> Entry:
        """Return inputs and options of a resource."""
        return self._entries[self.labels[urn]]

    def provider(self, urn: str) -> tuple[str, Entry]:
        """Return label and inputs of a resource's explicit provider; empty if it has none."""
        label = self.entry(urn).get("provider", "")
        return label, self._entries.get(label, {}).get("inputs", {})

    def _urn(self, label: str) -> str:
        types, above = [_type(label)], self._entries[label].get("parent")
        while above is not None:
            types.insert(0, _type(above))
            above = self._entries[above].get("parent")
        return f"{'$'.join(types)}::{_name(label)}"


def findings(before: Snapshot, now: Snapshot) -> list[Finding]:
    """Return the replaced or deleted resources whose loss has a consequence (`stackctl.review.consequences`)."""
    successors = _successors(before, now)
    renamed = _renamings(before, now, successors)
    found = []
    for old, label in before.labels.items():
        new = successors.get(old)
        if new is None:
            # A provider exists only in the state; its resources are checked separately.
            if not _type(label).startswith(_PROVIDER):
                found.append(Finding(label, "delete"))
        elif because := tuple(sorted(_replaced_by(before, now, old, new, renamed))):
            found.append(Finding(label, "replace", because))
    return sorted(finding for finding in found if finding.consequence)


def _successors(before: Snapshot, now: Snapshot) -> dict[str, str]:
    """Return old URN -> the URN under which the same resource continues, by name or by alias."""
    moved = {alias: urn for urn, aliases in now.aliases.items() for alias in aliases if urn not in before.labels}
    kept = {urn: urn for urn in before.labels if urn in now.labels}
    return {**{alias: urn for alias, urn in moved.items() if alias in before.labels}, **kept}


def _renamings(before: Snapshot, now: Snapshot, successors: Mapping[str, str]) -> dict[str, str]:
    """Return values of the present snapshot -> their names in the older one.

    An aliased resource keeps its physical name, and a role whose path the program ignores keeps its ARN.
    """
    found = {}
    for old, new in successors.items():
        entry, had = now.entry(new), before.entry(old)["inputs"]
        if "path" in entry.get("ignoreChanges", ()) and "path" in entry["inputs"]:
            arn_ends = [f"role{one.get('path', '/')}{one['name']}" for one in (entry["inputs"], had)]
            found[arn_ends[0]] = arn_ends[1]
        if old == new:
            continue
        found[f"<{_name(now.labels[new])}."] = f"<{_name(before.labels[old])}."
        has = entry["inputs"]
        for key in had.keys() & has.keys():
            if _is_autoname(before.labels[old], had[key]) and _is_autoname(now.labels[new], has[key]):
                found[has[key]] = had[key]
    return found


def _is_autoname(label: str, value: Any) -> bool:
    return isinstance(value, str) and _AUTONAMED.sub("", value) == _name(label) and value != _name(label)


def _replaced_by(before: Snapshot, now: Snapshot, old: str, new: str, renamed: Mapping[str, str]) -> Iterator[str]:
    """Yield the properties whose change replaces the resource."""
    type_, entry = _type(now.labels[new]), now.entry(new)
    had, has = before.entry(old)["inputs"], _translated(entry["inputs"], renamed)
    ignored = {path.partition(".")[0] for path in entry.get("ignoreChanges", ())}
    if type_.startswith("aws:"):
        yield from (path for path in table.handler(type_).diff(had, has).replaces if path.partition(".")[0] not in ignored)
    elif type_.startswith(_PROVIDER):
        yield from _changed(had, has, [(option,) for option in _IDENTITY.get(type_, ())])
    elif type_ == releases.TOKEN:
        yield from _changed(had, has, [("name",), ("namespace",)])
    elif type_.startswith("kubernetes:") and kube_rules.manifest(has).get("kind"):
        _, options = now.provider(new)
        mutable = frozenset(kind for kind, option in _MUTABLE_OPTIONS.items() if options.get(option) in (True, "true"))
        yield from _changed(had, has, kube_rules.replacing(had, has, mutable))
    yield from _another_system(before, now, old, new)


def _another_system(before: Snapshot, now: Snapshot, old: str, new: str) -> Iterator[str]:
    """Yield `provider` if the resource's provider has another account or cluster, because it is created again there."""
    (label_before, had), (label_now, has) = before.provider(old), now.provider(new)
    options = _IDENTITY.get(_type(label_now), frozenset()) if label_before and label_now else frozenset()
    if label_before != label_now and any(had.get(option) != has.get(option) for option in options):
        yield "provider"


def _changed(old: Entry, new: Entry, prefixes: list[differences.Path]) -> Iterator[str]:
    for change in differences.changes(old, new):
        if differences.starts_with(change.path, prefixes):
            yield differences.render(change.path)


def _translated(value: Any, renamed: Mapping[str, str]) -> Any:
    if isinstance(value, Mapping):
        return {key: _translated(member, renamed) for key, member in value.items()}
    if isinstance(value, list):
        return [_translated(member, renamed) for member in value]
    if isinstance(value, str):
        for now, before in renamed.items():
            value = value.replace(now, before)
    return value


def _name(label: str) -> str:
    return label.rpartition(" (")[0]


def _type(label: str) -> str:
    return label.rpartition(" (")[2].removesuffix(")")
