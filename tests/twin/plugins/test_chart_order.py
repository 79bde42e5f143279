"""The order of a chart's objects: the official provider's rules, and the objects' own."""

from typing import Any

import pytest

from twin.plugins.chart_order import sorted_with_dependencies
from twin.plugins.errors import PluginError


def thing(kind: str, name: str, after: str = "", version: str = "v1", **more: Any) -> dict[str, Any]:
    annotations = {"config.kubernetes.io/depends-on": after} if after else {}
    metadata = {"name": name, "namespace": "ns", "annotations": annotations}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **more}


def test_objects_that_say_nothing_have_no_order() -> None:
    objects = [thing("Deployment", "web", version="apps/v1"), thing("Service", "web"), thing("ServiceAccount", "web")]
    assert sorted(sorted_with_dependencies(objects)) == [(0, []), (1, []), (2, [])]


def test_a_namespace_and_a_definition_go_before_what_needs_them() -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "pools.karpenter.sh"},
        "spec": {"group": "karpenter.sh", "names": {"kind": "Pool"}},
    }
    pool = {"apiVersion": "karpenter.sh/v1", "kind": "Pool", "metadata": {"name": "gpu"}}
    objects = [pool, thing("Secret", "key"), definition, namespace]
    order = sorted_with_dependencies(objects)
    assert sorted(order) == [(0, [2]), (1, [3]), (2, []), (3, [])]
    places = [index for index, _ in order]
    assert places.index(2) < places.index(0)
    assert places.index(3) < places.index(1)


def test_what_an_object_names_goes_before_it() -> None:
    after = "/namespaces/ns/ServiceAccount/web, rbac.authorization.k8s.io/ClusterRole/web"
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "web"}}
    objects = [thing("Deployment", "web", after, "apps/v1"), thing("ServiceAccount", "web"), role]
    assert dict(sorted_with_dependencies(objects))[0] == [1, 2]


@pytest.mark.parametrize(
    ("objects", "why"),
    [
        ([thing("Secret", "a", "ServiceAccount/web")], "of ns/a: 'ServiceAccount/web' names no object; write GROUP/"),
        ([thing("Secret", "a", "/namespaces/ns/Secret/b")], "of ns/a: the chart has no /namespaces/ns/Secret/b"),
        (
            [thing("Secret", "a", "/namespaces/ns/Secret/b"), thing("Secret", "b", "/namespaces/ns/Secret/a")],
            "leads in a circle: ns/",
        ),
        (
            [thing("Pod", "a", "/namespaces/ns/Service/b"), thing("Service", "b")],
            "ns/a is made after the Service b, which is waited for until it has pods: give the Service the annotation",
        ),
    ],
)
def test_an_order_that_cannot_be_is_told(objects: list[dict[str, Any]], why: str) -> None:
    with pytest.raises(PluginError) as refusal:
        sorted_with_dependencies(objects)
    assert why in str(refusal.value)
