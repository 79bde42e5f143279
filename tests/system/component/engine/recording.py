"""Recordings of runs of the program: its resources and their outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Values = dict[str, Any]


@dataclass(frozen=True)
class Registration:
    """A registered resource, with the options that the SDK's mocks drop."""

    urn: str
    type: str
    name: str
    inputs: Values
    """The inputs as the program sent them: plain values, UNKNOWN if a preview does not know the value."""
    custom: bool
    parent: str = ""
    provider: str = ""
    """``<urn>::<id>`` of an explicit provider."""
    protect: bool = False
    retain_on_delete: bool = False
    delete_before_replace: bool = False
    ignore_changes: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()
    """URNs of dependencies other than the sources of its inputs."""
    sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Property -> URNs of the resources that its value comes from."""
    remote: bool = False
    aliases: tuple[str, ...] = ()
    """Earlier URNs that it may have had."""
    checked: Values = field(default_factory=dict)
    """For AWS resources: the inputs after the provider's check (default tags, physical name)."""
    id: str = ""
    outputs: Values = field(default_factory=dict)
    known: bool = True
    """False if its provider has no configuration yet. The engine does not call such a provider, so it has no outputs."""


@dataclass
class Recording:
    """All registrations of one run, in the order in which they finished, and the stack's outputs."""

    registrations: list[Registration] = field(default_factory=list)
    exports: Values = field(default_factory=dict)

    def urns(self) -> list[str]:
        """Return all URNs, sorted."""
        return sorted(registration.urn for registration in self.registrations)

    def of_type(self, *types: str) -> list[Registration]:
        """Return the registrations of these type tokens, by name."""
        return sorted((item for item in self.registrations if item.type in types), key=lambda item: item.name)

    def one(self, type: str, name: str | None = None) -> Registration:
        """Return the only registration of the type (and name). Raises AssertionError if there are none or several."""
        found = [item for item in self.of_type(type) if name is None or item.name == name]
        names = [item.name for item in found]
        assert len(found) == 1, f"{len(found)} registrations of {type} {name or ''}: {names}"
        return found[0]


class StackFailed(Exception):
    """All refused resources of one run; their dependents were not tried."""

    def __init__(self, failures: Sequence[tuple[str, str]]) -> None:
        self.failures = tuple(failures)
        super().__init__("\n".join(f"{resource}: {message}" for resource, message in failures))
