"""Keep the Kubernetes nodes in line with the EKS node groups: create, update, drain and delete them."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

import yaml

from spec.charts import NVIDIA_DEVICE_PLUGIN
from twin.cluster import device_plugin, helm_releases, node_objects, quantity, release_marks
from twin.cluster.kube_api import KubeApi, Object
from twin.cluster.kube_errors import ApiError
from twin.cluster.node_groups import AwsReader

log = logging.getLogger("twin.nodes")
_DRAINING_ANNOTATION = "twin.triton-eks/draining"
_PERIOD_SECONDS = 1.0
_DRAIN_SECONDS = 60.0
"""EKS waits 15 minutes for evictions before it terminates a machine; nothing here takes that long."""


async def repeat(round: Callable[[], Awaitable[None]], log: logging.Logger, kept: str) -> None:
    """Run a round each second, forever; log repeats of a failure only once. `kept`: the objects that are then outdated."""
    said = ""
    while True:
        try:
            await round()
            said = ""
        except Exception as error:
            if said != (said := f"{type(error).__name__}: {error}"):
                log.warning("%s are not up to date: %s", kept, said)
        await asyncio.sleep(_PERIOD_SECONDS)


class NodeSimulator:
    """Simulates the machines: EKS with its Auto Scaling groups, the kubelet's registration, the device plugin."""

    def __init__(
        self, api: KubeApi, aws: AwsReader, kubelet_port: int, *, runs_as_process: Callable[[Object], bool]
    ) -> None:
        """`runs_as_process` returns whether the agent, not kwok, terminates a pod."""
        self._api = api
        self._aws = aws
        self._kubelet_port = kubelet_port
        self._runs_as_process = runs_as_process
        self._draining: dict[str, float] = {}
        self.synced = asyncio.Event()

    async def run(self) -> None:
        """Reconcile forever; log a failed round and try again."""

        async def round() -> None:
            await self.reconcile()
            self.synced.set()

        await repeat(round, log, "nodes")

    async def reconcile(self) -> None:
        """Do one round: compare node groups and device plugin values with existing nodes, and apply the difference."""
        groups = await asyncio.to_thread(self._aws.node_groups)
        values = await plugin_values(self._api)
        wanted = {n["metadata"]["name"]: n for group in groups for n in node_objects.nodes(group, values)}
        listed = await self._api.get("/api/v1/nodes", labelSelector=f"type=kwok,{node_objects.NODE_GROUP_LABEL}")
        present = {node["metadata"]["name"]: node for node in listed["items"]}
        for name, node in wanted.items():
            node["status"]["daemonEndpoints"] = {"kubeletEndpoint": {"Port": self._kubelet_port}}
            self._draining.pop(name, None)
            if name not in present:
                await self._create(node)
            else:
                await self._update(present[name], node)
        surplus = sorted(present.keys() - wanted.keys())
        if not surplus or not await asyncio.to_thread(self._aws.settled):
            return
        for name in surplus:
            await self._remove(present[name])

    async def _create(self, node: Object) -> None:
        try:
            await self._api.create("/api/v1/nodes", node)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
        log.info("created node %s (%s)", node["metadata"]["name"], _summary(node))

    async def _update(self, present: Object, wanted: Object) -> None:
        path = f"/api/v1/nodes/{present['metadata']['name']}"
        change = changes(present, wanted)
        if change:
            await self._api.patch(path, change, kind="merge")
            log.info("updated node %s: %s", present["metadata"]["name"], ", ".join(sorted(change)))
        status = status_changes(present, wanted)
        if status:
            await self._api.patch(f"{path}/status", {"status": status}, kind="merge")
            log.info("updated node %s (%s)", present["metadata"]["name"], _summary(wanted))

    async def _remove(self, node: Object) -> None:
        """Drain the node like a managed node group (cordon, evict), then delete it."""
        name = node["metadata"]["name"]
        path = f"/api/v1/nodes/{name}"
        deadline = self._draining.setdefault(name, time.monotonic() + _DRAIN_SECONDS)
        if not node["spec"].get("unschedulable"):
            cordon = {"metadata": {"annotations": {_DRAINING_ANNOTATION: "true"}}, "spec": {"unschedulable": True}}
            await self._api.patch(path, cordon, kind="merge")
        pods = (await self._api.get("/api/v1/pods", fieldSelector=f"spec.nodeName={name}"))["items"]
        left = [pod for pod in pods if not _belongs_to_node(pod)]
        if left and time.monotonic() < deadline:
            for pod in left:
                await self._evict(pod)
            return
        await self._api.delete(path)
        for pod in pods:
            # kwok no longer simulates the kubelet of a deleted node; the runner still terminates its own pods.
            force = None if self._runs_as_process(pod) else {"gracePeriodSeconds": 0}
            await self._api.delete(_pod_path(pod), force)
        self._draining.pop(name, None)
        log.info("removed node %s", name)

    async def _evict(self, pod: Object) -> None:
        if pod["metadata"].get("deletionTimestamp"):
            return
        metadata = {"name": pod["metadata"]["name"], "namespace": pod["metadata"]["namespace"]}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
        try:
            await self._api.create(f"{_pod_path(pod)}/eviction", body)
        except ApiError as error:
            if error.status not in (404, 429):  # 429: a disruption budget does not allow it now
                raise


async def plugin_values(api: KubeApi) -> dict[str, Any] | None:
    """Return the values of the device plugin's release, from the twin's record or else Helm's; None without a release."""
    listed = await api.get("/api/v1/configmaps", labelSelector=f"{release_marks.LABEL}=true")
    for config_map in listed["items"]:
        if config_map["data"]["chart"] == NVIDIA_DEVICE_PLUGIN.name:
            return yaml.safe_load(config_map["data"]["values.yaml"]) or {}
    secrets = await api.get("/api/v1/secrets", labelSelector=helm_releases.DEPLOYED)
    return helm_releases.values(secrets["items"], NVIDIA_DEVICE_PLUGIN.name)


def changes(present: Object, wanted: Object) -> Object:
    """Return the merge patch that updates a node's labels, annotations and taints to its group's; {} for none.

    Entries from others (kwok, the node controller, a person) stay. Entries that the group no longer has are removed.
    """
    annotations = present["metadata"].get("annotations") or {}
    applied = json.loads(annotations.get(node_objects.APPLIED_ANNOTATION) or "{}")
    owned = {
        "labels": applied.get("labels", []),
        "annotations": [node_objects.PROBLEM_ANNOTATION, _DRAINING_ANNOTATION],
    }
    patch: Object = {}
    for kind, keys in owned.items():
        old, new = present["metadata"].get(kind) or {}, wanted["metadata"][kind]
        gone = [key for key in keys if key in old and key not in new]
        difference = {k: v for k, v in new.items() if old.get(k) != v} | dict.fromkeys(gone)
        if difference:
            patch.setdefault("metadata", {})[kind] = difference
    old_taints, new_taints = present["spec"].get("taints") or [], wanted["spec"].get("taints") or []
    foreign = [t for t in old_taints if _identity(t) not in {_identity(o) for o in applied.get("taints", [])}]
    foreign = [t for t in foreign if _identity(t) not in {_identity(n) for n in new_taints}]
    if {_identity(t) for t in old_taints} != {_identity(t) for t in foreign + new_taints}:
        patch.setdefault("spec", {})["taints"] = foreign + new_taints
    if _DRAINING_ANNOTATION in annotations:
        patch.setdefault("spec", {})["unschedulable"] = None
    return patch


def status_changes(present: Object, wanted: Object) -> Object:
    """Return the merge patch for the status: resources and the kubelet's port; {} for none."""
    patch: Object = {}
    for kind in ("capacity", "allocatable"):
        old, new = present["status"].get(kind) or {}, wanted["status"][kind]
        gone = [r for r in old if device_plugin.is_resource(r) and r not in new]
        # The API server normalizes quantities: it returns 16384Mi as 16Gi.
        changed = {k: v for k, v in new.items() if k not in old or quantity.parse(old[k]) != quantity.parse(v)}
        if changed or gone:
            patch[kind] = changed | dict.fromkeys(gone)
    endpoints = wanted["status"].get("daemonEndpoints")
    if endpoints and present["status"].get("daemonEndpoints") != endpoints:
        patch["daemonEndpoints"] = endpoints
    return patch


def _identity(taint: dict[str, str]) -> tuple[str, str, str]:
    return taint["key"], taint.get("value", ""), taint["effect"]


def _belongs_to_node(pod: Object) -> bool:
    owners = pod["metadata"].get("ownerReferences") or []
    return any(owner["kind"] in ("DaemonSet", "Node") for owner in owners)


def _pod_path(pod: Object) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def _summary(node: Object) -> str:
    gpus = {k: v for k, v in node["status"]["allocatable"].items() if device_plugin.is_resource(k)}
    offer = ", ".join(f"{v} {k}" for k, v in gpus.items())
    problem = node["metadata"]["annotations"].get(node_objects.PROBLEM_ANNOTATION)
    return offer or problem or "no GPUs"
