"""Define a resource handler: the contract between the table of types and the drivers.

A handler implements one pulumi-aws resource type against an AWS endpoint (moto). Two drivers exist: the in-process
engine of ``tests/system/component`` and the gRPC provider of ``twin/plugins``. All dictionaries are plain JSON-like Python
with the camelCase keys of pulumi-aws, and whole numbers are ints. In a preview, a value that is not known yet is
``UNKNOWN``, anywhere in the inputs of ``check``. ``create`` and ``update`` receive only known values.

How a driver uses a handler::

    handler = table.handler(token)                               # UnsupportedType names the file to extend
    inputs = merge_default_tags(handler, inputs, default_tags)   # twin.aws.base.tags
    inputs = handler.check(inputs, autoname)                     # InvalidInputs has all problems of the resource
    handler.preview(inputs)                                      # outputs of a planned create
    handler.preview_update(outputs, new_inputs)                  # outputs of a planned update
    id, outputs = handler.create(clients, inputs)
    difference = handler.diff(old_inputs, new_inputs)
    outputs = handler.update(clients, id, outputs, new_inputs)   # old: the last outputs; new: checked inputs
    outputs = handler.read(clients, id, outputs)                 # None: it does not exist
    handler.delete(clients, id, outputs)

A driver catches ``APPLY_ERRORS`` around the calls that take ``clients`` and shows ``explain(error)``.
Refreshed inputs (Read) are ``handler.refreshed_inputs(old_inputs, outputs)``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from botocore.exceptions import BotoCoreError, ClientError
from pulumi.runtime.rpc import UNKNOWN

from twin.aws.base import schema
from twin.aws.base.clients import Clients
from twin.aws.base.errors import HandlerError, InvalidInputs, Problem

__all__ = [
    "APPLY_ERRORS",
    "UNKNOWN",
    "Difference",
    "Handler",
    "HandlerError",
    "InvalidInputs",
    "Invoke",
    "Problem",
    "explain",
    "known",
]

APPLY_ERRORS = (HandlerError, ClientError, BotoCoreError)

Values = dict[str, Any]
Invoke = Callable[[Clients, Values], Values]


def explain(error: BaseException) -> str:
    """Format the error in one line: the AWS operation and the reason of the refusal."""
    if isinstance(error, ClientError):
        detail = error.response.get("Error", {})
        return f"{error.operation_name}: {detail.get('Code', 'Unknown')}: {detail.get('Message', '')}".rstrip(": ")
    return str(error)


def known(inputs: Mapping[str, Any], key: str) -> Any:
    """Return the value of ``key``, or None when it is absent or not known yet."""
    value = inputs.get(key)
    return None if value == UNKNOWN else value


@dataclass(frozen=True)
class Difference:
    """Changed input keys, the paths that force a replacement, and whether to delete the old resource first."""

    changed: tuple[str, ...]
    replaces: tuple[str, ...]
    delete_first: bool


class Handler:
    """Base of all handlers. Subclasses set the class variables and implement create, read and delete."""

    token: ClassVar[str]
    """The pulumi-aws type token."""

    inputs: ClassVar[frozenset[str]]
    """Input keys that the handler implements. The SDK's other keys are refused, not ignored."""

    computed: ClassVar[frozenset[str]] = frozenset()
    """Output keys that are unknown until the resource exists, unless the inputs set them."""

    defaults: ClassVar[Mapping[str, Any]] = {}
    """Outputs that the provider sets for absent inputs; known in a preview."""

    replace_on: ClassVar[frozenset[str]] = frozenset()
    """Inputs whose change replaces the resource: keys, or dotted paths of members. The official provider's `ForceNew`:
    docs/rehearsal.md.
    """

    unordered: ClassVar[frozenset[str]] = frozenset()
    """Lists of items of one type, whose order has no meaning: sets in the official provider."""

    name_input: ClassVar[str | None] = None
    """The input with the physical name; autonaming fills it when it is absent."""

    delete_before_replace: ClassVar[bool] = False
    """True if the old and the new resource cannot exist at the same time in AWS, whatever their names."""

    partly_computed: ClassVar[frozenset[str]] = frozenset()
    """Object inputs that AWS extends with its own members. A refresh compares only the declared members."""

    @property
    def taggable(self) -> bool:
        """Return whether the type takes default tags."""
        return "tags" in self.inputs

    def check(self, inputs: Mapping[str, Any], autoname: str | None = None) -> Values:
        """Validate without AWS and return the inputs with the physical name filled in.

        Raises InvalidInputs with every problem. First come unknown and unsupported keys, wrong types and missing required
        properties (by the installed SDK). Then come problems of the type's own ``rules``.
        """
        checked = {key: value for key, value in inputs.items() if value is not None and not key.startswith("__")}
        if self.name_input and autoname and self.name_input not in checked:
            checked[self.name_input] = self.physical_name(autoname)
        problems = schema.problems(self.token, checked)
        problems += [
            Problem(key, f"the twin does not implement this input of {self.token}: extend {self._source()}")
            for key in sorted(checked.keys() & schema.input_names(self.token) - self.inputs)
        ]
        if not problems:
            problems += list(self.rules(checked))
        if problems:
            raise InvalidInputs(self.token, problems)
        return checked

    def physical_name(self, autoname: str) -> str:
        """Return the physical name for an autoname. Overridden if the service needs a prefix or lower case."""
        return autoname

    def rules(self, inputs: Values) -> Iterable[Problem]:
        """Yield violations of rules that need no AWS call. Inputs have the right types but may hold UNKNOWN anywhere."""
        return ()

    def preview(self, inputs: Values) -> Values:
        """Return the outputs of a planned create; computed values are UNKNOWN."""
        return self.outputs(inputs, dict.fromkeys(self.computed - inputs.keys(), UNKNOWN))

    def outputs(self, inputs: Values, computed: Mapping[str, Any]) -> Values:
        """Merge defaults, inputs and computed values, with ``tagsAll`` for taggable types."""
        tags = {"tagsAll": inputs.get("tags", {})} if self.taggable else {}
        return {**self.defaults, **inputs, **tags, **computed}

    def kept(self, new: Values, old: Mapping[str, Any]) -> Values:
        """Return the outputs of an update that does not change the computed values."""
        return self.outputs(new, {key: old[key] for key in self.computed - new.keys() if key in old})

    def preview_update(self, old: Values, new: Values) -> Values:
        """Return the outputs of a planned update. Overridden if an update changes computed values."""
        return self.kept(new, old)

    def diff(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> Difference:
        """Compare old and new checked inputs."""
        before, after = (self._sorted(values) for values in (old, new))
        keys = {key for key in old.keys() | new.keys() if not key.startswith("__")}
        changed = tuple(sorted(key for key in keys if before.get(key) != after.get(key)))
        replaces = tuple(path for path in sorted(self.replace_on) if _at(before, path) != _at(after, path))
        return Difference(changed, replaces, bool(replaces) and self._must_delete_first(old, new))

    def _sorted(self, values: Mapping[str, Any]) -> Values:
        """Return the inputs with their ``unordered`` lists sorted."""
        found = dict(values)
        for path in self.unordered:
            key, _, member = path.partition(".")
            if member and isinstance(found.get(key), Mapping):
                found[key] = {**found[key], member: _in_order(found[key].get(member))}
            elif not member:
                found[key] = _in_order(found.get(key))
        return found

    def _must_delete_first(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
        same_name = self.name_input is not None and old.get(self.name_input) == new.get(self.name_input)
        return same_name or self.delete_before_replace

    def refreshed_inputs(self, old_inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> Values:
        """Return the inputs that would give the observed outputs. Read reports them to the engine."""
        return {
            key: _seen_through(old_inputs[key], outputs[key]) if key in self.partly_computed else outputs[key]
            for key in old_inputs
            if outputs.get(key) is not None
        }

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        """Create in AWS; return the provider id and the outputs."""
        raise NotImplementedError

    def read(self, clients: Clients, id: str, state: Values) -> Values | None:
        """Read the resource from AWS; return the state with the real values, or None if it no longer exists."""
        raise NotImplementedError

    def update(self, clients: Clients, id: str, old: Values, new: Values) -> Values:
        """Update in place from the outputs ``old`` to the inputs ``new``; return the new outputs."""
        changed = [key for key in self.diff(old, new).changed if key in self.inputs]
        raise HandlerError(f"{self.token}: the twin cannot update {', '.join(changed)}: extend {self._source()}")

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        """Delete in AWS; an absent resource is no error."""
        raise NotImplementedError

    def _source(self) -> str:
        return type(self).__module__.replace(".", "/") + ".py"


def _at(values: Mapping[str, Any], path: str) -> Any:
    key, _, member = path.partition(".")
    value = values.get(key)
    # If an object is not known yet, its members are not known either.
    return value.get(member) if member and isinstance(value, Mapping) else value


def _in_order(value: Any) -> Any:
    return sorted(value, key=str) if isinstance(value, list) else value


def _seen_through(declared: Mapping[str, Any], observed: Mapping[str, Any]) -> Values:
    return {key: observed[key] for key in declared if observed.get(key) is not None}
