"""Recordings of runs of the program: its resources and their outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Values = dict[str, Any]


@dataclass(frozen=True)
class Registration:
    """One registered resource, with the options that the mocks of the SDK drop."""

    urn: str
    type: str
    name: str
    inputs: Values
    """As the program sent them: plain values, UNKNOWN where a preview does not know."""
    custom: bool
    parent: str = ""
    provider: str = ""
    """``<urn>::<id>`` of an explicit provider."""
    protect: bool = False
    retain_on_delete: bool = False
    delete_before_replace: bool = False
    ignore_changes: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()
    """URNs that the resource depends on beyond those that its inputs come from."""
    sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Property -> URNs of the resources that its value comes from."""
    remote: bool = False
    aliases: tuple[str, ...] = ()
    """URNs that it may have had before."""
    checked: Values = field(default_factory=dict)
    """AWS resources: the inputs after the provider's check (default tags, physical name)."""
    id: str = ""
    outputs: Values = field(default_factory=dict)
    known: bool = True
    """False if its provider has no configuration yet: the engine calls no such provider, and has no outputs of it."""


@dataclass
class Recording:
    """All registrations of one run, in the order in which they were finished, and the stack's outputs."""

    registrations: list[Registration] = field(default_factory=list)
    exports: Values = field(default_factory=dict)

    def urns(self) -> list[str]:
        """All URNs, sorted."""
        return sorted(registration.urn for registration in self.registrations)

    def of_type(self, *types: str) -> list[Registration]:
        """The registrations of these type tokens, by name."""
        return sorted((item for item in self.registrations if item.type in types), key=lambda item: item.name)

    def one(self, type: str, name: str | None = None) -> Registration:
        """The only registration of the type (and name). AssertionError when there is none or more than one."""
        found = [item for item in self.of_type(type) if name is None or item.name == name]
        names = [item.name for item in found]
        assert len(found) == 1, f"{len(found)} registrations of {type} {name or ''}: {names}"
        return found[0]


class StackFailed(Exception):
    """One run's refused resources, all of them; what depends on them was not tried."""

    def __init__(self, failures: Sequence[tuple[str, str]]) -> None:
        self.failures = tuple(failures)
        super().__init__("\n".join(f"{resource}: {message}" for resource, message in failures))
