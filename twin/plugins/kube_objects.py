"""Manage any Kubernetes object, by server-side apply to a real API server.

Wait for the pods of Deployments and for the conditions in annotations (awaiting.py), and for deletions.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

from twin.cluster.kube_api import ApiResource, KubeClient, Object
from twin.cluster.kube_errors import ApiError, Unreachable
from twin.plugins import awaiting, differences, field_owners, kube_normal, kube_rules
from twin.plugins.errors import Failure, PluginError, Unfinished
from twin.plugins.provider import Plan, Resource
from twin.plugins.server import EngineLog
from twin.plugins.values import Values, has_unknown

FIELD_MANAGER = "pulumi"

DELETE_SECONDS = 300.0
"""Time limit for a deletion if the resource has no timeout; pods may use their grace period."""

POLL_SECONDS = 0.25

CONFLICT = 409
_GIVE_BACK = (
    "Somebody else has set these fields: set them back to what the stack has (of .spec.replicas: `kubectl scale` to its "
    "number) and run it again, see docs/autoscaling.md#scaled-by-hand"
)
"""The remedy for a field manager conflict. The official provider says `server-side apply field conflict detected`."""


class KubeObjects:
    """Operations on objects of any kind.

    ``mutable`` are the kinds, ConfigMap or Secret, that are changed in place. ``force`` takes over fields of other
    managers. ``forget_unreachable`` treats objects as deleted while the API server is down.
    """

    def __init__(
        self,
        client: KubeClient,
        log: EngineLog,
        cancelled: threading.Event,
        *,
        namespace: str,
        mutable: frozenset[str] = frozenset(),
        force: bool = False,
        forget_unreachable: bool = False,
    ) -> None:
        self._client = client
        self._log = log
        self._cancelled = cancelled
        self._namespace = namespace
        self._mutable = mutable
        self._force = force
        self._forget_unreachable = forget_unreachable

    def check(self, resource: Resource, old: Values, new: Values, seed: bytes) -> tuple[Values, list[Failure]]:
        failures = [*kube_rules.problems(resource.type, new), *awaiting.mistakes(new)]
        if failures:
            return new, failures
        named = kube_rules.with_name(kube_normal.normalized(new), old, resource.name, seed)
        return kube_rules.with_namespace(named, self._namespaced(new, old), self._namespace), []

    def diff(self, resource: Resource, old: Values, new: Values, state: Values) -> Plan:
        return Plan(
            differences.changes(kube_normal.normalized(old), kube_normal.normalized(new)),
            replace=kube_rules.replacing(old, new, self._mutable),
            delete_first=kube_rules.must_go_first(old, new),
        )

    def preview_create(self, resource: Resource, inputs: Values) -> Values:
        """Return the inputs, after the API server's admission has checked them in a dry run.

        Before the first update, the namespace or the object's kind may not exist yet, which is not an error here.
        """
        if has_unknown(inputs):
            return inputs
        try:
            served = self._client.kind(inputs["apiVersion"], inputs["kind"])
            if served is not None:
                collection = served.path(inputs["metadata"].get("namespace"))
                self._client.create(collection, kube_rules.manifest(inputs), manager=FIELD_MANAGER, dry_run=True)
        except Unreachable as error:
            self._log.warning_once(f"{error}. This preview was not checked by it")
        except ApiError as error:
            if error.status not in (404, 409):
                raise _refused(error, inputs) from error
        return inputs

    def create(self, resource: Resource, inputs: Values, timeout: float) -> tuple[str, Values]:
        served = self._served(inputs)
        id = kube_rules.object_id(inputs)
        existing = self._client.find(_path(served, id))
        if existing is not None and not _interrupted_create(existing):
            raise PluginError(
                f"{inputs['kind']} {id} exists already and was not made by this stack: import it, rename yours or delete it"
            )
        return id, self._ready(served, self._apply(served, id, inputs), timeout)

    def read(self, resource: Resource, inputs: Values, state: Values) -> tuple[Values, Values] | None:
        described = inputs or state
        api_version, kind = described.get("apiVersion"), described.get("kind")
        if not api_version or not kind:
            raise PluginError(f"{resource.type} {resource.id}: its state names no apiVersion and kind to read")
        served = self._client.kind(api_version, kind)
        found = self._client.find(_path(served, resource.id)) if served else None
        if found is None:
            return None
        outputs = kube_rules.outputs(found)
        if not inputs:
            return outputs, outputs
        return differences.refreshed(inputs, state, outputs), outputs

    def preview_update(self, resource: Resource, state: Values, inputs: Values) -> Values:
        """Return the state merged with the new inputs, after the API server has checked them in a dry run."""
        if not has_unknown(inputs):
            try:
                served = self._client.kind(inputs["apiVersion"], inputs["kind"])
                if served is not None:
                    self._apply(served, resource.id, self._not_ignored(served, resource, inputs), dry_run=True)
            except Unreachable as error:
                self._log.warning_once(f"{error}. This preview was not checked by it")
        return {**state, **inputs}

    def update(self, resource: Resource, state: Values, inputs: Values, timeout: float) -> Values:
        served = self._served(inputs)
        applied = self._apply(served, resource.id, self._not_ignored(served, resource, inputs))
        return self._ready(served, applied, timeout)

    def delete(self, resource: Resource, inputs: Values, state: Values, timeout: float) -> None:
        described = inputs or state
        try:
            served = self._client.kind(described["apiVersion"], described["kind"])
            if served is not None:
                self._delete(served, resource, described, timeout or DELETE_SECONDS)
        except Unreachable as error:
            if not self._forget_unreachable:
                raise PluginError(
                    f"{error}. If the cluster is gone for good, set PULUMI_K8S_DELETE_UNREACHABLE=true"
                ) from error

    def _delete(self, served: ApiResource, resource: Resource, inputs: Mapping[str, Any], seconds: float) -> None:
        path = _path(served, resource.id)
        found = self._client.find(path)
        if found is None:
            return
        uid = found["metadata"]["uid"]
        policy = (kube_rules.annotation(inputs, kube_rules.PROPAGATION) or "foreground").capitalize()
        try:
            self._client.delete(path, {"propagationPolicy": policy, "preconditions": {"uid": uid}})
        except ApiError as error:
            raise _refused(error, inputs) from error
        deadline = time.monotonic() + seconds
        while (found := self._client.find(path)) is not None and found["metadata"]["uid"] == uid:
            if time.monotonic() > deadline:
                raise Unfinished(
                    f"{served.kind} {resource.id} is still there {seconds:.0f} s after its deletion{_holding(found)}"
                )
            if self._cancelled.wait(POLL_SECONDS):
                raise Unfinished(f"cancelled while {served.kind} {resource.id} was being deleted")

    def _apply(self, served: ApiResource, id: str, inputs: Values, *, dry_run: bool = False) -> Object:
        forced = kube_rules.annotation(inputs, kube_rules.PATCH_FORCE)
        force = self._force if forced is None else forced == "true"
        try:
            applied = self._client.apply(
                _path(served, id), kube_rules.manifest(inputs), manager=FIELD_MANAGER, force=force, dry_run=dry_run
            )
        except ApiError as error:
            raise _refused(error, inputs) from error
        return applied

    def _not_ignored(self, served: ApiResource, resource: Resource, inputs: Values) -> Values:
        live = self._client.find(_path(served, resource.id)) if resource.ignored else None
        return inputs if live is None else field_owners.without_ignored(inputs, live, resource.ignored, FIELD_MANAGER)

    def _ready(self, served: ApiResource, live: Object, timeout: float) -> Values:
        path = _path(served, kube_rules.object_id(live))
        return kube_rules.outputs(awaiting.ready(self._client, path, live, timeout, self._cancelled))

    def _served(self, inputs: Mapping[str, Any]) -> ApiResource:
        served = self._client.kind(inputs["apiVersion"], inputs["kind"])
        if served is None:
            raise PluginError(
                f"the API server does not know {inputs['kind']} in {inputs['apiVersion']}: is its CRD installed before it?"
            )
        return served

    def _namespaced(self, inputs: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
        """Return whether the kind is namespaced. If no API server can tell, use the last deployment, if any."""
        try:
            served = self._client.kind(inputs["apiVersion"], inputs["kind"])
        except Unreachable:
            served = None
        if served is None and old:
            return "namespace" in (old.get("metadata") or {})
        return served.namespaced if served else inputs["kind"] not in kube_rules.CLUSTER_SCOPED


def _path(served: ApiResource, id: str) -> str:
    return served.path(*kube_rules.split_id(id))


def _interrupted_create(existing: Object) -> bool:
    """Return whether an earlier run applied the object and was killed before it could record that."""
    managers = existing["metadata"].get("managedFields") or []
    return any(entry.get("manager") == FIELD_MANAGER and entry.get("operation") == "Apply" for entry in managers)


def _refused(error: ApiError, inputs: Mapping[str, Any]) -> PluginError:
    name = (inputs.get("metadata") or {}).get("name", "")
    remedy = f". {_GIVE_BACK}" if error.status == CONFLICT and "conflict with" in str(error) else ""
    return PluginError(f"the API server refused {inputs['kind']} {name}: {error}{remedy}")


def _holding(found: Object) -> str:
    """Return the reasons in the object that keep it from being deleted."""
    finalizers = [
        *(found["metadata"].get("finalizers") or []),
        *((found.get("spec") or {}).get("finalizers") or []),
    ]
    conditions = [
        condition["message"]
        for condition in (found.get("status") or {}).get("conditions") or []
        if condition.get("status") == "True" and condition.get("message")
    ]
    held = f"; finalizers: {', '.join(finalizers)}" if finalizers else ""
    return held + (f"; {' '.join(conditions)}" if conditions else "")
