"""Earlier URNs of a resource, as the engine derives them from the program's aliases."""

from __future__ import annotations

from collections.abc import Iterable

from pulumi.runtime.proto import alias_pb2

_STACK = "pulumi:pulumi:Stack"


def previous_urns(urn: str, aliases: Iterable[alias_pb2.Alias], parent: str, of_parent: Iterable[str]) -> tuple[str, ...]:
    """Return the resource's own aliases, and its aliases from the aliases `of_parent` of its parent `parent`.

    The rules are the engine's (pkg/resource/deploy/step_generator.go, generateAliases).
    """
    own = [alias.urn or _of_spec(urn, alias.spec, parent) for alias in aliases]
    moved = [_below(alias, child, parent) for alias in of_parent for child in (urn, *own)]
    return tuple(dict.fromkeys(found for found in (*own, *moved) if found != urn))


def _of_spec(urn: str, spec: alias_pb2.Alias.Spec, parent: str) -> str:
    head, qualified, name = _parts(urn)
    stack, _, project = head.removeprefix("urn:pulumi:").partition("::")
    above = "" if spec.noParent else spec.parentUrn or parent
    head = f"urn:pulumi:{spec.stack or stack}::{spec.project or project}"
    return _urn(head, above, spec.type or _type(qualified), spec.name or name)


def _below(parent_alias: str, child: str, parent: str) -> str:
    """Return the child's URN below the parent's old URN; a name that begins with the parent's name changes with it."""
    head, qualified, name = _parts(child)
    before, now = _parts(parent_alias)[2], _parts(parent)[2]
    if name.startswith(now):
        name = before + name.removeprefix(now)
    return _urn(head, parent_alias, _type(qualified), name)


def _urn(head: str, parent: str, type_: str, name: str) -> str:
    above = _parts(parent)[1] if parent else _STACK
    return f"{head}::{type_ if above == _STACK else f'{above}${type_}'}::{name}"


def _parts(urn: str) -> tuple[str, str, str]:
    stack, project, qualified, name = urn.split("::", 3)
    return f"{stack}::{project}", qualified, name


def _type(qualified: str) -> str:
    return qualified.rpartition("$")[2]
