"""What `pulumi up` would do to an environment: the engine's own preview, for people and for programs."""

import json
from dataclasses import asdict, dataclass
from typing import Any

from twin.engine import Engine, EngineError


@dataclass(frozen=True)
class Step:
    """One step of a preview.

    `op` is the engine's word (create, update, replace, delete, same …). `changed` are the property paths that differ, and
    `replace_reasons` those of them that force a replacement; both are empty for a creation.
    """

    op: str
    urn: str
    type: str
    changed: list[str]
    replace_reasons: list[str]


@dataclass(frozen=True)
class Preview:
    """A preview of one stack.

    `summary` counts resources by operation as the engine's display does: those that stay as they are, too, of which there is
    no step. `steps` are in the order of their URNs, so that two previews of one thing read the same.
    """

    stack: str
    summary: dict[str, int]
    steps: list[Step]

    def to_json(self) -> str:
        """The document that `python3 -m twin preview STACK --json` prints."""
        return json.dumps(asdict(self), indent=2)


def read(engine: Engine, stack: str) -> Preview:
    """What the engine would do to `stack`. Raises EngineError when the preview fails."""
    try:
        digest = json.loads(engine.read(stack, ["preview", "--json", "--non-interactive"]))
    except EngineError as error:
        raise EngineError(f"the preview of {stack} failed:\n{_errors(error.output) or error}") from None
    steps = sorted((_step(s) for s in digest.get("steps", [])), key=lambda s: (s.urn, s.op))
    return Preview(stack, dict(sorted(digest.get("changeSummary", {}).items())), steps)


def _errors(output: str) -> str:
    """The error messages in the document that a failed preview prints; empty when it printed none."""
    try:
        diagnostics = json.loads(output).get("diagnostics") or []
    except ValueError:
        return ""
    return "\n".join(d["message"].strip() for d in diagnostics if d.get("severity") == "error")


def _step(raw: dict[str, Any]) -> Step:
    state = raw.get("newState") or raw.get("oldState") or {}
    changed = sorted(raw.get("detailedDiff") or raw.get("diffReasons") or [])
    return Step(raw["op"], raw["urn"], state.get("type", ""), changed, sorted(raw.get("replaceReasons") or []))
