"""The order of a chart's objects, as in the official provider.

A namespace and a definition come before the objects that need them, and an object may name others in an annotation. All
other objects of a chart are created and deleted in parallel.
https://github.com/pulumi/pulumi-kubernetes/blob/v4.34.0/provider/pkg/provider/yaml/v2/yaml.go, `Register`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from graphlib import CycleError, TopologicalSorter

from twin.plugins import kube_rules
from twin.plugins.errors import PluginError
from twin.plugins.values import Values

DEPENDS_ON = "config.kubernetes.io/depends-on"
"""Annotation: the objects that must exist before this one, and are deleted after it."""
_SERVICE = ("", "Service")

Reference = tuple[str, str, str, str]
"""Group ("" for core), kind, namespace ("" for none) and name of an object."""


def sorted_with_dependencies(objects: Sequence[Values]) -> list[tuple[int, list[int]]]:
    """Return each object's index with its dependencies' indices, dependencies first.

    Raises PluginError for a cycle, a reference to an object outside the chart, and a wait that never ends.
    """
    indices = {_reference(manifest): index for index, manifest in enumerate(objects)}
    before = {
        index: sorted({*_implied(manifest, objects), *_said(manifest, indices)}) for index, manifest in enumerate(objects)
    }
    for index, earlier in before.items():
        for one in earlier:
            _refuse_a_wait_for_itself(objects[index], objects[one])
    try:
        return [(index, before[index]) for index in TopologicalSorter(before).static_order()]
    except CycleError as error:
        names = " after ".join(kube_rules.object_id(objects[index]) for index in error.args[1])
        raise PluginError(f"{DEPENDS_ON} leads in a circle: {names}") from None


def _reference(manifest: Values) -> Reference:
    group = manifest["apiVersion"].rpartition("/")[0]
    metadata = manifest["metadata"]
    return group, manifest["kind"], metadata.get("namespace") or "", metadata["name"]


def _implied(manifest: Values, objects: Sequence[Values]) -> Iterator[int]:
    group, kind, namespace, _ = _reference(manifest)
    for index, other in enumerate(objects):
        if other["kind"] == "Namespace" and other["metadata"]["name"] == namespace:
            yield index
        elif other["kind"] == "CustomResourceDefinition":
            spec = other["spec"]
            if (spec["group"], spec["names"]["kind"]) == (group, kind):
                yield index


def _said(manifest: Values, indices: dict[Reference, int]) -> Iterator[int]:
    for word in filter(None, map(str.strip, (kube_rules.annotation(manifest, DEPENDS_ON) or "").split(","))):
        fields = word.split("/")
        if len(fields) == 5 and fields[1] == "namespaces":
            group, _, namespace, kind, name = fields
        elif len(fields) == 3:
            (group, kind, name), namespace = fields, ""
        else:
            raise PluginError(
                f"{DEPENDS_ON} of {kube_rules.object_id(manifest)}: {word!r} names no object; write GROUP/namespaces/"
                "NAMESPACE/KIND/NAME, or GROUP/KIND/NAME, where the group of core is empty"
            )
        found = indices.get((group, kind, namespace, name))
        if found is None:
            raise PluginError(f"{DEPENDS_ON} of {kube_rules.object_id(manifest)}: the chart has no {word}")
        yield found


def _refuse_a_wait_for_itself(manifest: Values, earlier: Values) -> None:
    """Raise PluginError if the official provider would wait for the pods of a Service before it creates them."""
    group, kind, _, name = _reference(earlier)
    if (group, kind) == _SERVICE and kube_rules.annotation(earlier, kube_rules.SKIP_AWAIT) != "true":
        raise PluginError(
            f"{kube_rules.object_id(manifest)} is made after the Service {name}, which is waited for until it has pods: "
            f'give the Service the annotation {kube_rules.SKIP_AWAIT}: "true"'
        )
