"""Read a file written by `pulumi stack export`, as strictly as the engine that imports it, with readable errors.

VerifyIntegrity checks the engine's rules for a state:
https://github.com/pulumi/pulumi/blob/master/pkg/resource/deploy/snapshot.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spec import reading
from spec.failure import NOT_TRIED, Failure
from spec.reading import Unreadable
from spec.versions import PROJECT
from twin.plugins.values import SECRET, SIGNATURE

VERSIONS = (3, 4)
"""Supported format versions: https://github.com/pulumi/pulumi/blob/master/sdk/go/common/apitype/core.go."""
_OPERATIONS = ("creating", "updating", "deleting", "reading", "importing")
_PROVIDER = "pulumi:providers:"
_URN = re.compile(r"urn:pulumi:([\w.-]{1,100})::([^:]+)::[^:\n].*?::[^\n]+", re.ASCII)
_RESOURCE = {
    **dict.fromkeys(("urn", "type", "id", "parent", "provider", "deletedWith"), str),
    **dict.fromkeys(("custom", "protect", "retainOnDelete", "delete", "external", "pendingReplacement"), bool),
    **{key: [str] for key in ("dependencies", "aliases", "initErrors")},
    **{key: {} for key in ("inputs", "outputs")},
    "propertyDependencies": {},
}
_FORM = {
    "version": int,
    "deployment": {"resources": [_RESOURCE], "pending_operations": [{"type": str, "resource": {"urn": str}}]},
}
_TOLD = 10


class NotAState(Failure):
    """The file is not an export of a stack of this project; the text gives the problem and the remedy."""

    exit_code = NOT_TRIED


@dataclass(frozen=True)
class Export:
    """An export. Each resource has `urn`, `type` and `custom`, and refers only to earlier resources.

    Each operation has a type and the URN of its resource.
    """

    stack: str
    resources: Sequence[Mapping[str, Any]]
    operations: Sequence[Mapping[str, Any]]


def read(path: Path) -> Export:
    """Return the export in a file. Raises NotAState, or Unreadable if the file is not JSON of this form."""
    content = reading.file(path)
    try:
        document = reading.checked(reading.json_object(content, reading.DEEPEST_OF_THE_ENGINE), _FORM, "the export")
    except Unreadable as error:
        raise Unreadable(error.problem, error.line, error.column, source=path) from None
    version, deployment = document.get("version"), document.get("deployment")
    if deployment is None or version not in VERSIONS:
        raise NotAState(
            f"{path}: no deployment of version {' or '.join(map(str, VERSIONS))}; write it with "
            "`pulumi stack export --stack STACK --file FILE`"
        )
    resources = deployment.get("resources") or []
    if not resources:
        raise NotAState(f"{path}: the stack has no resources, so that nothing can be replaced; `twin preview` shows it")
    operations = deployment.get("pending_operations") or []
    problems = [*_incomplete(resources, operations)] or [*_torn(resources)]
    if problems:
        more = f"\n  and {len(problems) - _TOLD} more" if len(problems) > _TOLD else ""
        raise NotAState(f"{path}: " + "\n  ".join(problems[:_TOLD]) + f"{more}\nexport the state again")
    return Export(_stack(path, [resource["urn"] for resource in resources]), resources, operations)


def type_of(urn: str) -> str:
    """Return the resource's own type, without the types of its parents. A name may contain `::`."""
    return urn.split("::", 3)[2].rpartition("$")[2]


def _name(urn: str) -> str:
    return urn.split("::", 3)[3]


def _incomplete(resources: Sequence[Mapping[str, Any]], operations: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the problems of each single resource and operation."""
    for position, one in enumerate(resources):
        urn = one.get("urn")
        at = f"resource {position}"
        if not urn or not one.get("type"):
            yield f"{at} has no urn or no type"
        elif _URN.fullmatch(urn) is None:
            yield f"{at}: {urn[:100]!r} is no URN"
        elif type_of(urn) != one["type"]:
            yield f"{at}: its type is {one['type'][:100]!r}, and {type_of(urn)!r} in its URN"
        elif one.get("custom") is None:
            yield f"{at} does not say whether it is custom"
        elif one["custom"] and not one.get("id"):
            yield f"{at} ({_name(urn)}) has no id, which what a provider made has"
        elif not one["custom"] and (one.get("id") or one["type"].startswith(_PROVIDER)):
            yield f"{at} ({_name(urn)}) has an id, or is a provider, and is not custom"
        else:
            for part in ("inputs", "outputs"):
                yield from (f"{at}: {place}" for place in _half_secrets(one.get(part) or {}, part))
    for position, operation in enumerate(operations):
        urn = (operation.get("resource") or {}).get("urn")
        if operation.get("type") not in _OPERATIONS or not urn or _URN.fullmatch(urn) is None:
            yield f"pending operation {position} needs the urn of a resource, and a type of {', '.join(_OPERATIONS)}"


def _half_secrets(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        if value.get(SIGNATURE) == SECRET and not _is_secret(value):
            yield f"{path} is a secret with neither a ciphertext nor a plaintext of JSON"
            return
        for key, member in value.items():
            yield from _half_secrets(member, f"{path}.{key}")
    elif isinstance(value, list):
        for index, member in enumerate(value):
            yield from _half_secrets(member, f"{path}[{index}]")


def _is_secret(value: Mapping[str, Any]) -> bool:
    plain = value.get("plaintext")
    if plain is None:
        return isinstance(value.get("ciphertext"), str)
    try:
        reading.json_value(plain, reading.DEEPEST_OF_THE_ENGINE) if isinstance(plain, str) else None
    except Unreadable:
        return False
    return isinstance(plain, str)


def _torn(resources: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield resources that occur twice, and references to resources that do not come before."""
    before: set[str] = set()
    present: set[str] = set()
    providers: set[str] = set()
    for position, one in enumerate(resources):
        urn, at = one["urn"], f"resource {position} ({_name(one['urn'])})"
        if urn in present and not one.get("delete"):
            yield f"{at} is there twice"
        provider = one.get("provider")
        # An update that stopped half-way may leave a resource that awaits replacement, whose provider no longer exists.
        if provider and provider not in providers and not one.get("pendingReplacement"):
            yield f"{at}: no provider before it is {provider[:200]!r}"
        for key, other in _references(one):
            if not isinstance(other, str) or other not in before:
                yield f"{at}: {key} is {str(other)[:200]!r}, and no resource before it is that"
        before.add(urn)
        if not one.get("delete"):
            present.add(urn)
        if one["type"].startswith(_PROVIDER):
            providers.add(f"{urn}::{one['id']}")


def _references(one: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key in ("parent", "deletedWith"):
        if one.get(key):
            yield key, one[key]
    for other in one.get("dependencies") or ():
        yield "a dependency", other
    for name, others in (one.get("propertyDependencies") or {}).items():
        # Older engines wrote null for an empty list.
        for other in others if isinstance(others, list) else () if others is None else (others,):
            yield f"a dependency of {name}", other


def _stack(path: Path, urns: Sequence[str]) -> str:
    places = sorted({(match[2], match[1]) for urn in urns if (match := _URN.fullmatch(urn)) is not None})
    if len(places) > 1:
        raise NotAState(f"{path}: resources of {len(places)} stacks ({', '.join(stack for _, stack in places)}); give one's")
    project, stack = places[0]
    if project != PROJECT:
        raise NotAState(f"{path}: a state of the project {project}, where {PROJECT} is expected")
    return stack
