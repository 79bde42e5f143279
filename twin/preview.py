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


def steps(engine: Engine, stack: str) -> list[Step]:
    """The steps of a preview of `stack`, in the order of their URNs, so that two previews of one thing read the same.

    Raises EngineError when the preview fails.
    """
    try:
        digest = json.loads(engine.read(stack, ["preview", "--json", "--non-interactive"]))
    except EngineError as error:
        raise EngineError(f"the preview of {stack} failed:\n{_errors(error.output) or error}") from None
    return sorted((_step(s) for s in digest.get("steps", [])), key=lambda s: (s.urn, s.op))


def to_json(stack: str, found: list[Step]) -> str:
    """The document that `python -m twin preview STACK --json` prints."""
    summary: dict[str, int] = {}
    for step in found:
        summary[step.op] = summary.get(step.op, 0) + 1
    return json.dumps({"stack": stack, "summary": summary, "steps": [asdict(s) for s in found]}, indent=2)


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
