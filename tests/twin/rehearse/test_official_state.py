"""A state of `prod` in the official providers' form has no differences without a program change."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from tests import snapshots
from tests.twin.rehearse.official_state import as_official
from twin.plugins import differences
from twin.plugins.aws import AwsProvider
from twin.plugins.kube_objects import KubeObjects
from twin.plugins.provider import Resource
from twin.plugins.releases import Releases
from twin.rehearse import state

REGISTERED = snapshots.resources("prod")
_LOG: Any = None
_CLIENT: Any = None


def _texts(value: Any) -> Any:
    """Return the inputs with JSON as text, which a snapshot has as objects."""
    if isinstance(value, dict):
        return (
            json.dumps(value["(JSON text)"])
            if "(JSON text)" in value
            else {key: _texts(item) for key, item in value.items()}
        )
    return [_texts(item) for item in value] if isinstance(value, list) else value


def _exported() -> list[dict[str, Any]]:
    resources = []
    for label, entry in REGISTERED.items():
        name, _, type_ = label.removesuffix(")").partition(" (")
        if type_.startswith(("aws:", "kubernetes:")):
            urn = f"urn:pulumi:prod::triton-eks::{type_}::{name}"
            outputs = {"arn": "arn:aws:eks:us-west-2:123456789012:thing"}
            parts = {"custom": True, "id": name, "inputs": _texts(entry["inputs"]), "outputs": outputs}
            resources.append({"urn": urn, "type": type_, **parts})
    return resources


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """By URN, the inputs that the twin's engine reads from a state in the official form, and the program's inputs."""
    exported = _exported()
    path = Path(tmp_path_factory.mktemp("state")) / "prod.json"
    path.write_text(json.dumps(as_official({"version": 3, "deployment": {"resources": exported}})))
    made = state.importable(state.read(path), {}, "{}", "salt")["deployment"]["resources"]
    return {new["urn"]: (old["inputs"], new["inputs"]) for old, new in zip(made, exported, strict=True)}


def test_no_resource_of_aws_differs(imported: dict[str, tuple[dict[str, Any], dict[str, Any]]]) -> None:
    provider = AwsProvider(_LOG)
    compared = 0
    for urn, (old, new) in imported.items():
        _, _, type_, name = urn.split("::", 3)
        if type_.startswith("aws:"):
            resource = Resource(urn, type_, name)
            checked, failures = provider.check(resource, old, new, b"seed" * 8)
            assert failures == [], urn
            assert provider.diff(resource, old, checked, {}).changes == [], urn
            compared += 1
    assert compared > 100


def test_no_release_differs(imported: dict[str, tuple[dict[str, Any], dict[str, Any]]]) -> None:
    provider = Releases(_CLIENT, _LOG, threading.Event(), namespace="default")
    found = {urn: inputs for urn, inputs in imported.items() if "helm.sh/v3" in urn}
    assert len(found) == 10
    assert [urn for urn, inputs in found.items() if _changes(provider, urn, *inputs)] == []


def test_no_object_differs_though_quantities_are_written_otherwise(
    imported: dict[str, tuple[dict[str, Any], dict[str, Any]]],
) -> None:
    provider = KubeObjects(_CLIENT, _LOG, threading.Event(), namespace="default")
    found = {urn: inputs for urn, inputs in imported.items() if "apiVersion" in inputs[1]}
    assert len(found) > 50
    assert [urn for urn, inputs in found.items() if _changes(provider, urn, *inputs)] == []
    assert any(differences.changes(old, new) for old, new in found.values())


def _changes(provider: Any, urn: str, old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Return the properties that the twin's provider would report as changed."""
    _, _, type_, name = urn.split("::", 3)
    changed = provider.diff(Resource(urn, type_, name), old, new, {}).changes
    return [differences.render(change.path) for change in changed]
