"""Preview the effect of `pulumi up` on an environment with the engine's own preview, for people and for programs."""

import contextlib
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from spec import reading
from spec.reading import Unreadable
from twin.engine.engine import Engine, EngineError

PACK = "policies"
"""The folder of the policy pack in a checkout."""
STREAM = {"PULUMI_ENABLE_STREAMING_JSON_PREVIEW": "true"}
"""With this, `pulumi preview --json` prints the engine's events as they occur instead of one document at the end."""
# The document omits policies (pkg/backend/display/json.go of Pulumi); the event log is a debugging flag.
_EVENT_LOG = {"PULUMI_DEBUG_COMMANDS": "true"}
_REFUSED = "error: preview failed"
"""The engine's only own error message when a policy is violated."""
_LAST_WORD = _REFUSED.removeprefix("error: ")
_MARKUP = re.compile(r"<\{%.*?%\}>|\x1b\[[0-9;]*m")
"""Colours, as the engine's own tags or as terminal escape sequences."""
_STACK_TYPE = "pulumi:pulumi:Stack"
_PROVIDER = "pulumi:providers:"


@dataclass(frozen=True)
class Step:
    """One step of a preview.

    `op` is the engine's operation (create, update, replace, delete, same …). `changed` are the property paths that differ.
    `replace_reasons` are the changed paths that force a replacement. Both are empty for a creation.
    """

    op: str
    urn: str
    type: str
    changed: list[str]
    replace_reasons: list[str]


@dataclass(frozen=True)
class PolicyResult:
    """A policy's result: a violation, or a note that it cannot evaluate something yet.

    `level` is `mandatory` (every `up` fails) or `advisory`; `urn` is the URN of the resource, or of the stack.
    """

    policy: str
    level: str
    severity: str
    urn: str
    message: str


@dataclass(frozen=True)
class Preview:
    """A preview of one stack: the document of `python3 -m twin preview STACK --json`.

    `summary` counts resources by operation like the engine's display, including unchanged ones, which have no step. `steps`
    are sorted by URN, so two previews of the same program are equal. `policies` are sorted with mandatory ones first.
    """

    stack: str
    summary: dict[str, int]
    steps: list[Step]
    policies: list[PolicyResult] = field(default_factory=list)

    @property
    def refused(self) -> bool:
        """Return whether a mandatory policy is violated."""
        return any(one.level == "mandatory" for one in self.policies)


def without_a_cluster(engine: Engine, stack: str) -> Engine:
    """Return the engine for a first preview of `stack`, which has no kubeconfig. Raises EngineError if the cluster exists.

    The engine then does not call the Kubernetes provider: `pcfg.known` in
    https://github.com/pulumi/pulumi/blob/v3.257.0/sdk/go/common/resource/plugin/provider_plugin.go.
    """
    from twin.plugins.eks import FIRST_PREVIEW  # imports grpc, which no other preview needs

    if any(resource["type"] == "aws:eks/cluster:Cluster" for resource in engine.resources(stack)):
        raise EngineError(f"--first: this twin has the cluster of {stack}; leave out --first, or set another TWIN_HOME")
    return replace(engine, environment={**engine.environment, **FIRST_PREVIEW})


def arguments(engine: Engine) -> list[str]:
    """Return the arguments of `pulumi preview` with the policy pack of the checkout and the pack's configuration.

    An old checkout has neither.
    """
    pack = engine.program / PACK
    configuration = pack / "config.json"
    return [
        "preview",
        *(["--policy-pack", str(pack)] if (pack / "PulumiPolicy.yaml").exists() else []),
        *(["--policy-pack-config", str(configuration)] if configuration.exists() else []),
    ]


def read(engine: Engine, stack: str) -> Preview:
    """Return the engine's plan for `stack` and the results of its policies. Raises EngineError if the preview fails."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "events.json"
        command = [*arguments(engine), "--json", "--non-interactive", "--event-log", str(log)]
        try:
            output, failure = engine.read(stack, command, _EVENT_LOG), None
        except EngineError as error:
            output, failure = error.output, error
        policies = _policies(_events(log))
    refused = any(one.level == "mandatory" for one in policies)
    if failure is not None and not (refused and _errors(output) in ("", _REFUSED)):
        raise EngineError(f"the preview of {stack} failed:\n{_errors(output) or failure}")
    digest = reading.json_object(output, reading.DEEPEST_OF_THE_ENGINE)
    steps = sorted((_step(s) for s in digest.get("steps", [])), key=lambda s: (s.urn, s.op))
    return Preview(stack, dict(sorted(digest.get("changeSummary", {}).items())), steps, policies)


def show(engine: Engine, stack: str, flags: Sequence[str], variables: Mapping[str, str] = MappingProxyType({})) -> None:
    """Show the engine's own preview of `stack` on this terminal. Raises EngineError if it fails, also because of a policy.

    The engine reports a policy pack as passed even if it never ran, so the error says how far the policies came.
    """
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "events.json"
        command = [*arguments(engine), *flags, "--event-log", str(log)]
        code = engine.run(stack, command, {**_EVENT_LOG, **variables})
        if code == 0:
            return
        events = _events(log)
    refused = any(one.level == "mandatory" for one in _policies(events))
    if refused and not _failed(events):
        raise EngineError(f"{stack} violates mandatory policies, which stand above")
    cause = "its events say why" if variables else "what it says above is the cause"
    besides = ", and mandatory policies are violated, too" if refused else ""
    far = "have not judged everything" if _judged(events) else "have judged nothing"
    raise EngineError(
        f"the preview of {stack} ended with {code}; {cause}{besides}. The policies {far}, whatever else is said"
    )


def _events(log: Path) -> list[dict[str, Any]]:
    """Return the events that the engine logged: none before it starts, and not a line that was cut off by a kill."""
    events = []
    for line in log.read_text(encoding="utf-8").splitlines() if log.exists() else []:
        with contextlib.suppress(Unreadable):
            events.append(reading.json_object(line, reading.DEEPEST_OF_THE_ENGINE))
    return events


def _judged(events: Sequence[dict[str, Any]]) -> bool:
    """Return whether any step was about a resource other than the stack itself and its providers."""
    types = [event["resourcePreEvent"]["metadata"]["type"] for event in events if "resourcePreEvent" in event]
    return any(type_ != _STACK_TYPE and not type_.startswith(_PROVIDER) for type_ in types)


def _failed(events: Sequence[dict[str, Any]]) -> bool:
    """Return whether there is an error besides the engine's final message, which follows every refusal."""
    said = [event["diagnosticEvent"] for event in events if "diagnosticEvent" in event]
    errors = [one["message"] for one in said if one["severity"] == "error"]
    errors += [event["errorEvent"].get("error", "") for event in events if "errorEvent" in event]
    return any(_MARKUP.sub("", error).strip().removeprefix("error: ") != _LAST_WORD for error in errors)


def _policies(events: Sequence[dict[str, Any]]) -> list[PolicyResult]:
    """Return the results of policies, mandatory ones first."""
    found = {_policy(event["policyEvent"]) for event in events if "policyEvent" in event}
    return sorted(found, key=lambda one: (one.level != "mandatory", one.policy, one.urn, one.message))


def _policy(event: dict[str, Any]) -> PolicyResult:
    return PolicyResult(
        policy=event["policyName"],
        level=event["enforcementLevel"],
        severity=event.get("severity") or "",
        urn=event.get("resourceUrn") or "",
        message=event["message"].strip(),
    )


def _errors(output: str) -> str:
    """Return the error messages in the document of a failed preview; empty if it printed none."""
    try:
        diagnostics = reading.json_object(output, reading.DEEPEST_OF_THE_ENGINE).get("diagnostics") or []
    except Unreadable:
        return ""
    return "\n".join(d["message"].strip() for d in diagnostics if d.get("severity") == "error")


def _step(raw: dict[str, Any]) -> Step:
    state = raw.get("newState") or raw.get("oldState") or {}
    changed = sorted(raw.get("detailedDiff") or raw.get("diffReasons") or [])
    return Step(raw["op"], raw["urn"], state.get("type", ""), changed, sorted(raw.get("replaceReasons") or []))
