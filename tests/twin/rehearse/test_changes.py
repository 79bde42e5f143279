"""Seeded changes of `prod`'s registrations: the providers' Diff and the judgement, against results by hand."""

from __future__ import annotations

import copy
import json
import threading
from collections.abc import Mapping
from typing import Any

import pytest
from pulumi.runtime.proto import provider_pb2

from stackctl.review import preview
from tests import snapshots
from tests.paths import ROOT
from tests.twin.rehearse.changes import ABSENT, CHANGES, GONE, Seeded
from twin.plugins.aws import AwsProvider
from twin.plugins.kube_objects import KubeObjects
from twin.plugins.kubernetes import KubernetesProvider
from twin.plugins.provider import Provider
from twin.plugins.releases import Releases
from twin.plugins.values import to_struct
from twin.rehearse import judgement
from twin.rehearse.judgement import BAD, Finding

REGISTERED = snapshots.resources("prod")
_LOG: Any = None
_CLIENT: Any = None


def _kubernetes() -> KubernetesProvider:
    """Return the provider without an API server, as a rehearsal uses it."""
    provider = KubernetesProvider(_LOG)
    provider._objects = KubeObjects(_CLIENT, _LOG, threading.Event(), namespace="default")
    provider._releases = Releases(_CLIENT, _LOG, threading.Event(), namespace="default")
    return provider


PROVIDERS: Mapping[str, Provider] = {"aws": AwsProvider(_LOG), "kubernetes": _kubernetes()}


def changed(inputs: Any, path: str, value: Any) -> Any:
    """Return the inputs with another value at a path."""
    made = copy.deepcopy(inputs)
    *above, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    node = made
    for part in above:
        node = node.setdefault(part, {}) if isinstance(node, dict) else node[part]
    if value is ABSENT:
        del node[last]
    elif value in ("reversed", "shortened"):
        node[last] = node[last][::-1] if value == "reversed" else node[last][:-1]
    else:
        node[last] = value
    return made


def after(label: str, change: Mapping[str, Any]) -> Any:
    inputs = REGISTERED[label]["inputs"]
    for path, value in change.items():
        inputs = changed(inputs, path, value)
    return inputs


def event(label: str, change: Mapping[str, Any]) -> dict[str, Any]:
    """Return the engine's event of a step, from the provider's answer."""
    name, _, type_ = label.removesuffix(")").partition(" (")
    urn = f"urn:pulumi:prod::triton-eks::{type_}::{name}"
    old = REGISTERED[label]["inputs"]
    told: dict[str, Any] = {"urn": urn, "op": "delete", "old": {"inputs": old, "custom": True}}
    if change is not GONE:
        new = after(label, change)
        request = provider_pb2.DiffRequest(urn=urn, id="id", old_inputs=to_struct(old), news=to_struct(new))
        answer = PROVIDERS[type_.partition(":")[0]].Diff(request, _LOG)
        kinds = provider_pb2.PropertyDiff.Kind.Name
        told |= {
            "op": "replace" if answer.replaces else "update" if answer.detailedDiff else "same",
            "new": {"inputs": new, "custom": True},
            "detailedDiff": {
                path: {"kind": kinds(diff.kind).lower().replace("_", "-")} for path, diff in answer.detailedDiff.items()
            },
        }
    return {"resourcePreEvent": {"metadata": told}}


def judged(seeded: Seeded) -> Finding | None:
    """Return the rehearsal's finding on the changed resource."""
    events = [
        event(seeded.resource, seeded.change),
        *({"resourcePreEvent": {"metadata": _same(label, seeded.beside.get(label, {}))}} for label in _OBJECTS),
        {"summaryEvent": {"resourceChanges": {}, "PolicyPacks": {}}},
    ]
    text = "\n".join(map(json.dumps, events))
    made = judgement.judge(preview.read(text), judgement.states(text), {})
    assert made.errors == ()
    name, _, type_ = seeded.resource.removesuffix(")").partition(" (")
    found = [one for one in made.findings if (one.type, one.name) == (type_, name)]
    return found[0] if found else None


_OBJECTS = [label for label in REGISTERED if "ScaledObject" in label]


def _same(label: str, change: Mapping[str, Any]) -> dict[str, Any]:
    name, _, type_ = label.removesuffix(")").partition(" (")
    state = {"inputs": after(label, change), "custom": True}
    return {"urn": f"urn:pulumi:prod::triton-eks::{type_}::{name}", "op": "same", "old": state, "new": state}


@pytest.mark.parametrize("seeded", CHANGES, ids=lambda seeded: seeded.says)
def test_a_change_is_judged_as_the_documentation_says(seeded: Seeded) -> None:
    found = judged(seeded)
    assert (found.action if found is not None else "same") == seeded.op
    assert (found.effect if found is not None else "none") == seeded.effect


def test_the_table_of_the_documentation_has_the_counts_of_these_changes() -> None:
    bad = sum(seeded.effect in BAD for seeded in CHANGES)
    said = f"{len(CHANGES)} changes, of which {bad} should not be merged as they are"
    assert said in (ROOT / "docs" / "rehearsal.md").read_text()
