"""Read the engine's plan from the JSON that it prints.

It reads two forms: the document of `pulumi preview --json`, and the stream of events, one a line, that the same command
prints with PULUMI_ENABLE_STREAMING_JSON_PREVIEW=true. Only the stream has the policy results; the engine leaves them out
of the document (pulumi pkg/backend/display/json.go).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from spec import reading
from spec.reading import Unreadable
from stackctl.review import changes
from stackctl.review.changes import at, is_unknown
from stackctl.review.markdown import shortened
from stackctl.review.plan import WAITING_POLICY, Action, Change, Plan, Step, Violation
from stackctl.review.redaction import redacted

# The engine's operations, by their effect on the resource. A replacement has up to three steps. `refresh` is not in this
# mapping: the engine reports it for every resource it reads, and reports a difference as an update or creation
# afterwards.
_ACTIONS: Mapping[str, Action] = {
    "create": "create",
    "import": "create",
    "update": "update",
    "delete": "delete",
    "replace": "replace",
    "create-replacement": "replace",
    "import-replacement": "replace",
    "delete-replaced": "replace",
}
_NOT_TOLD = frozenset(
    {"same", "refresh", "read", "read-replacement", "discard", "discard-replaced", "remove-pending-replace"}
)
"""The other operations, which change nothing (pulumi sdk/go/common/apitype/events.go)."""
_MANDATORY, _LEVELS = frozenset({"mandatory", "remediate"}), frozenset({"advisory", "mandatory", "remediate", "disabled"})
_SEVERITIES = frozenset({"debug", "info", "info#err", "warning", "error"})
_URN = re.compile(r"urn:pulumi:([^:]+)::[^:]+::[^:].*?::.+", re.DOTALL)
_LAST_WORDS = re.compile(
    r"(error: )?(preview failed|an unhandled error occurred: program exited with non-zero exit code: -?[0-9]+)"
)
"""Last messages of the engine after a failure. For a failed program it adds a second error to the program's error."""
_CUT_OFF = "the engine's output ends before its summary: the preview was cut off"
_CANNOT_RUN = "can't run policy "
"""Beginning of the engine's message if a policy needs an unknown value."""
_PROVIDER = "pulumi:providers:"
_STACK_TYPE = "pulumi:pulumi:Stack"
_STACK_IN_URN = re.compile(r'"urn": ?"urn:pulumi:([^:"]+)::')
_LONGEST_SHOWN = 100
_MARKUP = re.compile(r"<\{%.*?%\}>|\x1b\[[0-9;]*[A-Za-z]")
"""The engine's colour tags, and a terminal's escape codes."""


class UnreadablePlan(Unreadable):
    """Text in neither of the engine's two forms. The message names the problem."""


_STATE = {"id": str, "custom": bool, "protect": bool, "inputs": {}, "outputs": {}, "additionalSecretOutputs": [str]}
_DIFFERENCES = {str: {"kind": str, "diffKind": str}}
_METADATA = {
    "op": str,
    "urn": str,
    "old": _STATE,
    "new": _STATE,
    "detailedDiff": _DIFFERENCES,
    "diffs": [str],
    "keys": [str],
}
_DIAGNOSTIC = {"severity": str, "prefix": str, "message": str, "ephemeral": bool}
_EVENT = {
    "resourcePreEvent": {"metadata": _METADATA},
    "diagnosticEvent": _DIAGNOSTIC,
    "errorEvent": {"error": str},
    "policyEvent": {"policyName": str, "enforcementLevel": str, "severity": str, "resourceUrn": str, "message": str},
    "summaryEvent": {"resourceChanges": {str: int}, "PolicyPacks": {str: str}},
}
"""The fields of apitype.EngineEvent that are read (pulumi sdk/go/common/apitype/events.go)."""
_DOCUMENT = {
    "steps": [
        {
            "op": str,
            "urn": str,
            "oldState": _STATE,
            "newState": _STATE,
            "detailedDiff": _DIFFERENCES,
            "diffReasons": [str],
            "replaceReasons": [str],
        }
    ],
    "changeSummary": {str: int},
    "diagnostics": [_DIAGNOSTIC],
}
"""The fields of display.PreviewDigest that are read (pulumi pkg/display/json.go)."""


def read(text: str) -> Plan:
    """Return the plan from the engine's output. Raises UnreadablePlan."""
    if not text.strip():
        raise UnreadablePlan("the engine's JSON is empty: the preview has not begun, or its output went elsewhere")
    try:
        if (document := _document(text)) is not None:
            return _from_document(reading.checked(document, _DOCUMENT, "the engine's JSON"))
        return _from_events(
            [
                reading.checked(event, _EVENT, f"line {line}")
                for line, event in reading.json_lines(text, reading.DEEPEST_OF_THE_ENGINE)
            ]
        )
    except Unreadable as error:
        raise UnreadablePlan(f"the engine's output: {error}") from None


def _document(text: str) -> dict[str, Any] | None:
    """Return the text's JSON object, or None for events. Raises Unreadable for other JSON."""
    try:
        document = reading.json_object(text, reading.DEEPEST_OF_THE_ENGINE)
    except Unreadable as error:
        if error.line is None:  # the text is JSON, but its content is refused
            raise
        return None
    return None if any(key.endswith("Event") for key in document) else document


def stack_of(text: str) -> str | None:
    """Return the first stack in the engine's JSON, or None."""
    found = _STACK_IN_URN.search(text)
    return found[1] if found is not None else None


def _from_document(document: Mapping[str, Any]) -> Plan:
    if not document.keys() & {"changeSummary", "diagnostics"}:
        raise UnreadablePlan(
            "this is not a document of `pulumi preview --json`; `twin preview --json` prints one of its own: take `--events`"
        )
    diagnostics = document.get("diagnostics") or []
    return Plan(
        steps=_merged([_read_step(raw, _OF_A_DOCUMENT) for raw in document.get("steps") or ()]),
        counts=dict(document.get("changeSummary") or {}),
        errors=_messages(diagnostics, "error"),
        warnings=_messages(diagnostics, "warning"),
    )


@dataclass(frozen=True)
class _Told:
    """A step with its old and new states from the engine."""

    urn: str
    step: Step | None
    old: Mapping[str, Any]
    new: Mapping[str, Any]


@dataclass(frozen=True)
class _Keys:
    """The keys of a step in one of the engine's two forms."""

    old: str
    new: str
    changed: str
    replaces: str


_OF_A_DOCUMENT = _Keys("oldState", "newState", "diffReasons", "replaceReasons")
_OF_AN_EVENT = _Keys("old", "new", "diffs", "keys")


def _named(raw: Mapping[str, Any]) -> tuple[str, str]:
    """Return the operation and the URN of a step. Raises UnreadablePlan if one is missing or invalid."""
    for key in ("op", "urn"):
        if not raw.get(key):
            raise UnreadablePlan(f"a step of the engine's output has no {key}; was it written by `pulumi preview`?")
    op, urn = raw["op"], raw["urn"]
    _refuse_unknown("op of a step", op, _ACTIONS.keys() | _NOT_TOLD)
    if not _URN.fullmatch(urn):
        raise UnreadablePlan(f"a step of the engine's output has the urn {_shown(urn)}, which is none")
    return op, urn


def _refuse_unknown(what: str, word: str, known: Collection[str]) -> None:
    """Refuse an unknown word of the engine, because its meaning would be lost. Raises UnreadablePlan."""
    if word not in known:
        raise UnreadablePlan(f"the {what} is {_shown(word)}; known are {', '.join(sorted(known))}")


def _shown(word: str) -> str:
    return repr(shortened(word, _LONGEST_SHOWN))


def _from_events(events: list[dict[str, Any]]) -> Plan:
    steps, violations, diagnostics = [], [], []
    packs: dict[str, str] | None = None
    counts: Mapping[str, int] = {}
    for event in events:
        if packs is not None and event.keys() & {"resourcePreEvent", "summaryEvent"}:
            raise UnreadablePlan("steps follow the engine's summary: there is more than one preview in it; give one")
        if (resource := event.get("resourcePreEvent")) is not None:
            steps.append(_read_step(resource.get("metadata") or {}, _OF_AN_EVENT))
        elif (diagnostic := event.get("diagnosticEvent")) is not None:
            if not diagnostic.get("ephemeral"):
                diagnostics.append(diagnostic)
        elif (failure := event.get("errorEvent")) is not None:
            diagnostics.append({"severity": "error", "message": failure.get("error") or ""})
        elif (violation := event.get("policyEvent")) is not None:
            violations.append(_violation(violation))
        elif (summary := event.get("summaryEvent")) is not None:
            counts = dict(summary.get("resourceChanges") or {})
            # The name of a pack from a folder is `<name>|local|<folder>`.
            packs = {name.partition("|")[0]: version for name, version in (summary.get("PolicyPacks") or {}).items()}
    errors = _messages(diagnostics, "error")
    if packs is None and not errors:  # a killed engine prints no error, and its output looks like success
        errors = (_CUT_OFF,)
    ordered = sorted(set(violations), key=lambda one: (not one.mandatory, one.policy, one.resource, one.message))
    return Plan(
        steps=_merged(steps),
        counts=counts,
        violations=tuple(ordered),
        packs=packs,
        errors=_reasons(errors, violations),
        warnings=_messages(diagnostics, "warning"),
    )


def _reasons(errors: tuple[str, ...], violations: Iterable[Violation]) -> tuple[str, ...]:
    """Return the errors without the engine's last messages if another one gives the reason.

    That is another error, or a mandatory violation.
    """
    others = tuple(error for error in errors if not _LAST_WORDS.fullmatch(error))
    return others if others or any(violation.mandatory for violation in violations) else errors


def _violation(raw: Mapping[str, Any]) -> Violation:
    message, level, policy = plain(raw.get("message") or ""), raw.get("enforcementLevel") or "", raw.get("policyName") or ""
    if not policy:
        raise UnreadablePlan("a violation has no policyName; was it written by `pulumi preview`?")
    _refuse_unknown("enforcementLevel of a policy", level, _LEVELS)
    mandatory = level in _MANDATORY
    return Violation(
        policy=policy,
        mandatory=mandatory,
        severity=raw.get("severity") or "",
        resource=name_of(raw.get("resourceUrn") or ""),
        message=message,
        deferred=not mandatory and (policy == WAITING_POLICY or message.startswith(_CANNOT_RUN)),
    )


def _read_step(raw: Mapping[str, Any], keys: _Keys) -> _Told:
    op, urn = _named(raw)
    old, new = raw.get(keys.old) or {}, raw.get(keys.new) or {}
    return _Told(urn, _step(op, urn, old, new, raw, keys), old, new)


def _step(
    op: str, urn: str, old: Mapping[str, Any], new: Mapping[str, Any], raw: Mapping[str, Any], keys: _Keys
) -> Step | None:
    action = _ACTIONS.get(op)
    type_ = type_of(urn)
    if action is None or not _told(action, type_, new or old):
        return None
    detailed: Mapping[str, Any] = raw.get("detailedDiff") or {}
    reasons = set(raw.get(keys.replaces) or ())
    reasons |= {path for path, diff in detailed.items() if str(diff.get("kind") or diff.get("diffKind")).endswith("replace")}
    changed: tuple[Change, ...] = ()
    if action in ("update", "replace") and old and new:
        paths = list(detailed) or list(raw.get(keys.changed) or ())
        changed = changes.between(type_, old, new, paths)
    return Step(
        action,
        type_,
        name_of(urn),
        changed,
        tuple(sorted(_most_precise(reasons))) if action == "replace" else (),
        bool((old or new).get("protect")),
    )


def _told(action: Action, type_: str, state: Mapping[str, Any]) -> bool:
    """Return whether the comment shows a step.

    Components and the stack are only names for their resources. New and changed providers are internal to the engine.
    """
    if type_ == _STACK_TYPE or state.get("custom") is False:
        return False
    return not (type_.startswith(_PROVIDER) and action in ("create", "update"))


def _most_precise(paths: Iterable[str]) -> list[str]:
    """Return the paths without prefixes of other paths, like `vpcConfig` of `vpcConfig.subnetIds`."""
    kept = set(paths)
    return [path for path in kept if not any(other != path and other.startswith((f"{path}.", f"{path}[")) for other in kept)]


def _merged(told: Sequence[_Told]) -> tuple[Step, ...]:
    """Return one step for each resource.

    The three steps of a replacement become one. A `replace` step wins, then the step with the most changed properties.
    """
    if len(stacks := sorted({found[1] for one in told if (found := _URN.fullmatch(one.urn)) is not None})) > 1:
        raise UnreadablePlan(f"there are steps of more than one stack in it ({', '.join(stacks)}); give the preview of one")
    by_urn: dict[str, _Told] = {}
    steps: dict[str, Step] = {}
    for one in told:
        if one.step is None:
            continue
        known = steps.get(one.urn)
        rank = one.step.action == "replace", len(one.step.changed)
        if known is None or rank > (known.action == "replace", len(known.changed)):
            by_urn[one.urn], steps[one.urn] = one, one.step
    causes = roots(
        [
            Replacement(urn, str(one.old.get("id") or ""), one.old, one.new, steps[urn].replace_reasons)
            for urn, one in by_urn.items()
            if steps[urn].action == "replace"
        ]
    )
    return tuple(
        replace(step, caused_by=steps[causes[urn]].key) if urn in causes else step for urn, step in sorted(steps.items())
    )


def type_of(urn: str) -> str:
    """Return the type of a resource from its URN.

    It is the third part of the URN without the types of the parents.
    """
    parts = urn.split("::", 3)
    return parts[2].rpartition("$")[2] if len(parts) == 4 else ""


def name_of(urn: str) -> str:
    """Return the name that the program gives a resource; empty for the stack itself.

    A stack policy names the stack.
    """
    parts = urn.split("::", 3)
    return parts[3] if len(parts) == 4 and type_of(urn) != _STACK_TYPE else ""


def plain(text: str) -> str:
    """Return a message of the engine without colours and secrets."""
    return redacted(_MARKUP.sub("", text).strip())


def _messages(diagnostics: Sequence[Mapping[str, Any]], severity: str) -> tuple[str, ...]:
    for one in diagnostics:
        _refuse_unknown("severity of a diagnostic", one.get("severity") or "", _SEVERITIES)
    found = (
        plain(f"{one.get('prefix') or ''}{one.get('message') or ''}")
        for one in diagnostics
        if one.get("severity") == severity
    )
    return tuple(dict.fromkeys(message for message in found if message))


@dataclass(frozen=True)
class Replacement:
    """A replaced resource: its old id, its states, and the properties that force replacement."""

    urn: str
    id: str
    old: Mapping[str, Any]
    new: Mapping[str, Any]
    reasons: Sequence[str]


def roots(replacements: Sequence[Replacement]) -> dict[str, str]:
    """Map the URN of a replacement to the URN of its first cause.

    The engine's events do not report dependencies. But they show that a property's new value is not known yet, and its old
    value. A replaced resource that alone can have had the old value as an output is the cause. First causes are left out.
    """
    owners = _owners(replacements)
    causes = {one.urn: cause for one in replacements if (cause := _cause(one, owners)) is not None}
    return {urn: root for urn in causes if (root := _root(urn, causes)) != urn}


def _owners(replacements: Sequence[Replacement]) -> dict[str, str]:
    """Map an old value to the URN of the resource that it comes from.

    Values that several resources may have produced are left out.
    """
    given: dict[str, set[str]] = {}
    for one in replacements:
        taken = set(_texts(one.old.get("inputs")))
        for text in set(_texts(one.old.get("outputs"))) - taken:
            given.setdefault(text, set()).add(one.urn)
    ids: dict[str, set[str]] = {}
    for one in replacements:
        if one.id and one.id not in _handed_on(one):
            ids.setdefault(one.id, set()).add(one.urn)
    # The resource with this id is its owner, even if other resources have it among their outputs.
    return {text: urns.pop() for text, urns in (given | ids).items() if len(urns) == 1}


def _handed_on(one: Replacement) -> set[str]:
    """Return the values from other resources: old values of inputs that are now unknown.

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
    """Return the first cause in the chain of causes.

    A circle, which the engine cannot create, begins at its first URN by name.
    """
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
