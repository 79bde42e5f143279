"""Names, scopes and replacements of Kubernetes objects."""

import re
from typing import Any

import pytest

from twin.plugins import kube_rules
from twin.plugins.values import UNKNOWN

SEED = b"0123456789abcdef"


def _object(kind: str = "ConfigMap", api_version: str = "v1", **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


def test_an_object_without_a_name_gets_one_that_says_so() -> None:
    named = kube_rules.with_name(_object(labels={"a": "b"}), {}, "settings", SEED)
    assert re.fullmatch(r"settings-[0-9a-f]{8}", named["metadata"]["name"])
    assert named["metadata"]["annotations"] == {"pulumi.com/autonamed": "true"}
    assert named["metadata"]["labels"] == {"a": "b"}


def test_an_autoname_is_kept_and_a_removed_explicit_name_is_not() -> None:
    first = kube_rules.with_name(_object(), {}, "settings", SEED)
    assert kube_rules.with_name(_object(), first, "settings", b"other") == first
    renamed = kube_rules.with_name(_object(), _object(name="chosen"), "settings", SEED)
    assert renamed["metadata"]["name"] == first["metadata"]["name"]


@pytest.mark.parametrize("metadata", [{"name": "chosen"}, {"generateName": "x-"}])
def test_a_chosen_name_stays(metadata: dict[str, str]) -> None:
    assert kube_rules.with_name(_object(**metadata), {}, "settings", SEED) == _object(**metadata)


def test_only_kinds_with_a_namespace_get_the_default_one() -> None:
    assert kube_rules.with_namespace(_object(name="a"), True, "triton")["metadata"] == {"name": "a", "namespace": "triton"}
    assert kube_rules.with_namespace(_object(name="a", namespace="b"), True, "triton")["metadata"]["namespace"] == "b"
    assert kube_rules.with_namespace(_object("Namespace", name="a"), False, "triton")["metadata"] == {"name": "a"}


def test_ids_hold_namespace_and_name() -> None:
    assert kube_rules.object_id(_object(name="a", namespace="b")) == "b/a"
    assert kube_rules.split_id("b/a") == ("b", "a")
    assert kube_rules.object_id(_object("Node", name="n.example")) == "n.example"
    assert kube_rules.split_id("n.example") == (None, "n.example")


@pytest.mark.parametrize(
    ("kind", "api_version", "path"),
    [
        ("Deployment", "apps/v1", ("spec", "selector")),
        ("Service", "v1", ("spec", "clusterIP")),
        ("ConfigMap", "v1", ("data",)),
        ("PersistentVolume", "v1", ("spec", "csi")),
        ("Secret", "v1", ("stringData",)),
        ("RoleBinding", "rbac.authorization.k8s.io/v1", ("roleRef",)),
        ("Anything", "example.com/v1", ("metadata", "namespace")),
        ("Anything", "example.com/v1", ("metadata", "name")),
    ],
)
def test_a_change_of_this_replaces(kind: str, api_version: str, path: tuple[str, ...]) -> None:
    found = kube_rules.replacing(_object(kind, api_version), _object(kind, api_version), frozenset())
    assert path in found


def test_config_maps_are_changed_in_place_when_the_provider_is_told_so() -> None:
    paths = kube_rules.replacing(_object(), _object(), frozenset({"ConfigMap"}))
    assert ("data",) not in paths


def test_a_new_api_version_replaces_only_across_groups() -> None:
    within = kube_rules.replacing(_object("Job", "batch/v1beta1"), _object("Job", "batch/v1"), frozenset())
    across = kube_rules.replacing(
        _object("Ingress", "extensions/v1"), _object("Ingress", "networking.k8s.io/v1"), frozenset()
    )
    assert ("apiVersion",) not in within
    assert ("apiVersion",) in across


def test_a_chosen_name_must_be_free_before_its_replacement_exists() -> None:
    chosen = _object(name="a", namespace="b")
    assert kube_rules.must_go_first(chosen, chosen)
    assert not kube_rules.must_go_first(chosen, _object(name="a", namespace="c"))
    autonamed = _object(name="a-12345678", namespace="b", annotations={kube_rules.AUTONAMED: "true"})
    assert not kube_rules.must_go_first(autonamed, autonamed)


def test_a_type_that_is_not_its_kind_is_refused_with_the_file_to_extend() -> None:
    [failure] = kube_rules.problems("kubernetes:apps/v1:DeploymentPatch", _object("Deployment", "apps/v1", name="a"))
    assert failure.property == "kind"
    assert "extend twin/plugins/kubernetes.py" in failure.reason


def test_an_object_needs_api_version_and_kind() -> None:
    failures = kube_rules.problems("kubernetes:core/v1:Thing", {"metadata": {"name": "a"}})
    assert [failure.property for failure in failures] == ["apiVersion", "kind"]


def test_unknown_metadata_is_left_alone() -> None:
    inputs = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": UNKNOWN}
    assert kube_rules.problems("kubernetes:core/v1:ConfigMap", inputs) == []
    assert kube_rules.with_name(inputs, {}, "a", SEED) == inputs
    assert kube_rules.with_namespace(inputs, True, "default") == inputs
