"""Judge each step of a preview by its effect on serving and on stored data.

`stackctl.review.consequences` lists what a replacement or a deletion destroys. This module rates how bad that is,
and judges updates in place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from spec import reading
from spec.names import WARM_PODS_NAMESPACE
from stackctl.review import consequences
from stackctl.review.plan import Plan, Step
from twin.plugins import differences

Effect = Literal["refused", "lost", "interrupted", "rolled", "weakened", "not known", "none"]
BAD: tuple[Effect, ...] = ("refused", "lost", "interrupted")
"""Effects with which a change must not be merged as it is. The order is the order of the report."""
ORDER: tuple[Effect, ...] = (*BAD, "rolled", "weakened", "not known", "none")
MEANINGS: Mapping[Effect, str] = {
    "refused": "AWS or the engine refuses it: the `up` ends there",
    "lost": "data or logs are gone for good",
    "interrupted": "something that serves, or that it needs, is away until the new one is there",
    "rolled": "pods or nodes are replaced a few at a time; requests go on",
    "weakened": "nothing stops; a guard, an alarm or a right is missing, for now or from now on",
    "not known": "the old value is encrypted, so that nobody can say whether it changes",
    "none": "nobody notices",
}

_BUCKET = "aws:s3/bucket:Bucket"
_LOST = frozenset(
    {
        *("aws:kms/key:Key", _BUCKET, "aws:sqs/queue:Queue", "aws:cloudwatch/logGroup:LogGroup"),
        *("kubernetes:core/v1:Namespace", "kubernetes:core/v1:PersistentVolumeClaim"),
    }
)
_WEAKENED = frozenset(
    {
        *("aws:eks/accessEntry:AccessEntry", "aws:eks/podIdentityAssociation:PodIdentityAssociation"),
        *("aws:cloudwatch/metricAlarm:MetricAlarm", "aws:budgets/budget:Budget"),
        *("kubernetes:policy/v1:PodDisruptionBudget", "kubernetes:networking.k8s.io/v1:NetworkPolicy"),
        *("kubernetes:keda.sh/v1alpha1:ScaledObject", "kubernetes:autoscaling/v2:HorizontalPodAutoscaler"),
        "aws:fsx/dataRepositoryAssociation:DataRepositoryAssociation",
        "kubernetes:gateway.envoyproxy.io/v1alpha1:SecurityPolicy",
    }
)
_ROLLED = frozenset({"aws:ec2/launchTemplate:LaunchTemplate"})
_DEPLOYMENT = "kubernetes:apps/v1:Deployment"
_CLUSTER = "aws:eks/cluster:Cluster"
_SUBNET = "aws:ec2/subnet:Subnet"
_LIFECYCLE = "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration"
LEAST: Mapping[str, str] = {
    "kubernetes:keda.sh/v1alpha1:ScaledObject": "minReplicaCount",
    "kubernetes:autoscaling/v2:HorizontalPodAutoscaler": "minReplicas",
}
"""By type of autoscaler, the property that holds its minimum number of replicas."""


@dataclass(frozen=True)
class _InPlace:
    """An update with a larger effect than a changed setting, if one of the properties changes."""

    type: str
    properties: tuple[str, ...]
    effect: Effect
    says: str


_NODES_ROLL = "every node of the group is replaced, in turn: pods are drained, and a pool may be one node short meanwhile"
_SELECTED = "requests go to the pods that the new selector finds, from then on; until those are ready, to none"
_DRIFT = "Karpenter replaces its nodes, as they differ (drift), within the pool's budgets"
_IN_PLACE = (
    _InPlace(_CLUSTER, ("version",), "rolled", "the control plane is upgraded, which cannot be undone; serving goes on"),
    _InPlace("aws:eks/nodeGroup:NodeGroup", ("version", "releaseVersion", "launchTemplate"), "rolled", _NODES_ROLL),
    _InPlace("aws:eks/addon:Addon", ("addonVersion", "configurationValues"), "rolled", "its pods are replaced, in turn"),
    _InPlace("kubernetes:core/v1:Service", ("spec.selector",), "interrupted", _SELECTED),
    _InPlace("kubernetes:apps/v1:StatefulSet", ("spec.template",), "rolled", "its pods are replaced, in turn"),
    _InPlace("kubernetes:apps/v1:DaemonSet", ("spec.template",), "rolled", "its pods are replaced, node by node"),
    _InPlace("kubernetes:helm.sh/v3:Release", ("chart", "version", "values"), "rolled", "its pods that change are replaced"),
    _InPlace("kubernetes:karpenter.k8s.aws/v1:EC2NodeClass", ("spec",), "rolled", _DRIFT),
    _InPlace("kubernetes:karpenter.sh/v1:NodePool", ("spec.template",), "rolled", _DRIFT),
)
_FEWER: Mapping[tuple[str, str], str] = {
    ("aws:sqs/queue:Queue", "messageRetentionSeconds"): "messages in the queue that are older than the new limit are lost",
    ("aws:cloudwatch/logGroup:LogGroup", "retentionInDays"): "logs that are older than the new limit are lost",
    (_LIFECYCLE, "days"): "objects that are older than the new limit are deleted",
    (_LIFECYCLE, "noncurrentDays"): "earlier versions of objects that are older than the new limit are deleted",
}
"""Age limits, by type and key. A smaller limit, or the first one, deletes what is older."""


@dataclass(frozen=True)
class Finding:
    """The effect of one step of the preview.

    `because`: the properties that change; for a replacement, the properties that force it.
    """

    effect: Effect
    action: str
    type: str
    name: str
    because: tuple[str, ...]
    says: str | None
    caused_by: str | None

    @property
    def key(self) -> str:
        """Return `TYPE::NAME`."""
        return f"{self.type}::{self.name}"


@dataclass(frozen=True)
class Rehearsal:
    """All findings, worst first. `errors`: why the engine stopped; `notes`: limits of the judgement."""

    findings: tuple[Finding, ...]
    errors: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def moves_zones(self) -> bool:
        """Return whether subnets are replaced because their availability zones change."""
        return any(one.type == _SUBNET and "availabilityZone" in one.because for one in self.findings)

    @property
    def bad(self) -> bool:
        """Return whether the change should not be merged as it is."""
        return bool(self.errors) or any(finding.effect in BAD for finding in self.findings)


def states(events: str) -> dict[str, tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Return the inputs before and after of each resource in the engine's events, by `TYPE::NAME`."""
    found: dict[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {}
    for _, event in reading.json_lines(events, reading.DEEPEST_OF_THE_ENGINE):
        told = (event.get("resourcePreEvent") or {}).get("metadata") or {}
        old, new = ((told.get(part) or {}).get("inputs") or {} for part in ("old", "new"))
        if told and (old or new):
            known = found.get(key_of(told["urn"]), ({}, {}))
            found[key_of(told["urn"])] = (old or known[0], new or known[1])
    return found


def key_of(urn: str) -> str:
    """Return `TYPE::NAME`, the key of a resource in a step."""
    _, _, qualified, name = urn.split("::", 3)
    return f"{qualified.rpartition('$')[2]}::{name}"


def judge(
    plan: Plan,
    inputs: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]],
    hidden: Mapping[str, Sequence[differences.Path]],
    retained: Collection[str] = (),
    notes: Sequence[str] = (),
) -> Rehearsal:
    """Return the findings of a preview.

    `inputs`: the result of `states`. `hidden`: by URN, the paths whose old values are encrypted.
    `retained`: the URNs of resources that stay in AWS when Pulumi deletes them.
    """
    hidden = {key_of(urn): paths for urn, paths in hidden.items()}
    kept = frozenset(map(key_of, retained))
    replaced, scaled = [step for step in plan.steps if step.action == "replace"], _least_pods(inputs)
    there = {str(old["bucket"]) for key, (old, _) in inputs.items() if key.startswith(f"{_BUCKET}::") and "bucket" in old}
    found = [
        _finding(step, replaced, inputs.get(step.key, ({}, {})), hidden.get(step.key, ()), scaled, there)
        for step in plan.steps
    ]
    found = [_retained(one) if one.key in kept else one for one in found]
    found.sort(key=lambda one: (ORDER.index(one.effect), one.caused_by is not None, one.type, one.name))
    return Rehearsal(tuple(found), plan.errors, tuple(notes))


def _finding(
    step: Step,
    replaced: Sequence[Step],
    inputs: tuple[Mapping[str, Any], Mapping[str, Any]],
    hidden: Sequence[differences.Path],
    scaled: Mapping[str, int],
    there: Collection[str],
) -> Finding:
    paths = step.replace_reasons or tuple(change.path for change in step.changed)
    effect: Effect = "none"
    says: str | None = None
    if paths and all(_is_hidden(path, hidden) for path in paths):
        effect, says = "not known", f"it would be {step.action}d if its secret is another one"
    elif step.action == "replace":
        effect, says = _gone(step, "replace")
    elif step.action == "delete":
        effect, says = _gone(step, "delete")
    elif step.action == "update":
        effect, says = _updated(step, replaced, *inputs, scaled)
    elif step.action == "create" and inputs[1].get("bucket") in there:
        effect, says = _worst(list(_fewer(step.type, *inputs)))
    if effect == "interrupted" and step.type == _DEPLOYMENT and _is_spare(inputs):
        effect, says = "weakened", "the warm pods, which only hold a node ready, are away for a moment"
    return Finding(effect, step.action, step.type, step.name, paths, says, step.caused_by)


def _retained(finding: Finding) -> Finding:
    """Return the effect on a resource that Pulumi leaves in AWS (`retainOnDelete`)."""
    if finding.action == "delete":
        return replace(finding, effect="none", says="it stays in AWS, and Pulumi forgets it")
    if finding.action == "replace" and finding.effect == "lost":
        return replace(
            finding, effect="interrupted", says="the old one stays in AWS with what it holds; the new one is empty"
        )
    return finding


def _is_spare(inputs: tuple[Mapping[str, Any], Mapping[str, Any]]) -> bool:
    return any((manifest.get("metadata") or {}).get("namespace") == WARM_PODS_NAMESPACE for manifest in inputs)


def _is_hidden(path: str, hidden: Sequence[differences.Path]) -> bool:
    return any(
        path == shown or path.startswith((f"{shown}.", f"{shown}[")) or shown.startswith((f"{path}.", f"{path}["))
        for shown in map(differences.render, hidden)
    )


def _gone(step: Step, action: Literal["replace", "delete"]) -> tuple[Effect, str | None]:
    says = consequences.of(action, step.type)
    if says is None:
        return "none", None
    if step.type in _LOST:
        return "lost", says
    if step.type in _WEAKENED:
        return "weakened", says
    return ("rolled" if step.type in _ROLLED else "interrupted"), says


def _updated(
    step: Step, replaced: Sequence[Step], old: Mapping[str, Any], new: Mapping[str, Any], scaled: Mapping[str, int]
) -> tuple[Effect, str | None]:
    found: list[tuple[Effect, str | None]] = []
    refusal = consequences.refusal(step, replaced)
    if refusal is not None:
        found.append(("refused", refusal))
    if step.type == _DEPLOYMENT:
        found += _deployment(step, old.get("spec") or {}, new.get("spec") or {}, scaled.get(_name_of(new)))
    for rule in _IN_PLACE:
        if rule.type == step.type and any(_below(change.path, rule.properties) for change in step.changed):
            found.append((rule.effect, rule.says))
    return _worst([*found, *_fewer(step.type, old, new)])


def _fewer(type_: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[tuple[Effect, str]]:
    """Yield the loss that each new or smaller age limit causes."""
    before = dict(_whole_numbers(old))
    for place, after in _whole_numbers(new):
        says = _FEWER.get((type_, str(place[-1])))
        if says is not None and 0 < after < (before.get(place) or math.inf):  # 0 is no limit
            yield "lost", says


def _worst(found: Sequence[tuple[Effect, str | None]]) -> tuple[Effect, str | None]:
    return min(found, key=lambda one: ORDER.index(one[0]), default=("none", None))


def _below(path: str, properties: Sequence[str]) -> bool:
    return any(path == name or path.startswith((f"{name}.", f"{name}[")) for name in properties)


def _whole_numbers(value: Any, place: differences.Path = ()) -> Iterator[tuple[differences.Path, int]]:
    """Yield each whole number with its place. In a list, an item's place is its `id`, if any, as items may move."""
    if isinstance(value, int) and not isinstance(value, bool):
        yield place, value
    elif isinstance(value, Mapping):
        for key, member in value.items():
            yield from _whole_numbers(member, (*place, key))
    elif isinstance(value, list):
        for index, member in enumerate(value):
            named = member.get("id") if isinstance(member, Mapping) else None
            yield from _whole_numbers(member, (*place, named if isinstance(named, str) else index))


def _least_pods(inputs: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]]) -> dict[str, int]:
    """Return, by `NAMESPACE/NAME`, the minimum replicas of each Deployment that an autoscaler scales."""
    found = {}
    for key, (_, new) in inputs.items():
        least = LEAST.get(key.partition("::")[0])
        spec = new.get("spec")
        if least is not None and isinstance(spec, Mapping):
            target = (new.get("metadata") or {}).get("namespace"), (spec.get("scaleTargetRef") or {}).get("name")
            # With a minimum of 0, the number of pods depends on the load, which is unknown here.
            found[f"{target[0]}/{target[1]}"] = max(1, int(spec.get(least, 1)))
    return found


def _name_of(manifest: Mapping[str, Any]) -> str:
    metadata = manifest.get("metadata") or {}
    return f"{metadata.get('namespace')}/{metadata.get('name')}"


def _deployment(
    step: Step, old: Mapping[str, Any], new: Mapping[str, Any], scaled: int | None
) -> list[tuple[Effect, str | None]]:
    found: list[tuple[Effect, str | None]] = []
    before, after = old.get("replicas"), new.get("replicas")
    if isinstance(before, int) and isinstance(after, int) and after < before:
        found.append(("interrupted", "no pod is left") if after == 0 else ("rolled", f"{before - after} of its pods end"))
    if consequences.replaces_pods(step):
        # If an autoscaler scales the Deployment, its manifest may have an old number (`ignoreChanges`).
        pods = scaled if scaled is not None else after if isinstance(after, int) else 1
        found.append(_rollout(new.get("strategy") or {}, pods))
    return found


def _rollout(strategy: Mapping[str, Any], pods: int) -> tuple[Effect, str | None]:
    """Return the effect of a Deployment's rollout, by its strategy.

    https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#strategy
    """
    if pods == 0:
        return "none", None
    if strategy.get("type") == "Recreate":
        return "interrupted", "all of its pods end before a new one starts (strategy Recreate)"
    rolling = strategy.get("rollingUpdate") or {}
    surge = _of(rolling.get("maxSurge", "25%"), pods, math.ceil)
    away = _of(rolling.get("maxUnavailable", "25%"), pods, math.floor)
    if (away if surge else max(away, 1)) >= pods:
        return "interrupted", "all of its pods may end before a new one is ready (maxUnavailable)"
    return "rolled", "its pods are replaced, a few at a time"


def _of(part: Any, pods: int, rounded: Callable[[float], int]) -> int:
    """Return a number of pods from a number or a percentage."""
    if isinstance(part, str) and part.endswith("%") and part[:-1].isdigit():
        return rounded(pods * int(part[:-1]) / 100)
    return part if isinstance(part, int) else 0
