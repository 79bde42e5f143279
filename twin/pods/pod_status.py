"""Build the status of a pod that runs as processes, like the kubelet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from twin.cluster.kube_api import Object, timestamp

HOST_IP = "127.0.0.1"


@dataclass
class ContainerStatus:
    """The current status of one container. `state` and `last_state` have Kubernetes' form."""

    name: str
    image: str
    state: dict[str, Any] = field(default_factory=lambda: waiting("ContainerCreating"))
    last_state: dict[str, Any] = field(default_factory=dict)
    ready: bool = False
    started: bool = False
    restart_count: int = 0
    container_id: str = ""

    @classmethod
    def resume(cls, container: Object, pod: Object) -> ContainerStatus:
        """Return the container's status in the API, for a restarted agent; an initial status for a new container."""
        status_now = pod.get("status", {})
        known = [s for kind in ("initContainerStatuses", "containerStatuses") for s in status_now.get(kind) or []]
        before = next((s for s in known if s["name"] == container["name"]), None)
        status = cls(container["name"], container["image"])
        if before:
            status.state = before.get("state") or status.state
            status.last_state = before.get("lastState") or {}
            status.ready = bool(before.get("ready"))
            status.started = bool(before.get("started"))
            status.restart_count = before.get("restartCount", 0)
            status.container_id = before.get("containerID", "")
        return status

    @property
    def succeeded(self) -> bool:
        """Return whether it exited with code 0."""
        return "terminated" in self.state and self.state["terminated"]["exitCode"] == 0

    @classmethod
    def simulated(cls, container: Object) -> ContainerStatus:
        """Return the status of a container next to Triton in its pod, which does not run here and counts as ready."""
        status = cls(container["name"], container["image"], ready=True, started=True)
        status.state = {"running": {"startedAt": timestamp()}}
        return status

    def to_api(self) -> Object:
        """Return the entry in `containerStatuses`."""
        return {
            "name": self.name,
            "image": self.image,
            "imageID": "",
            "containerID": self.container_id,
            "state": self.state,
            "lastState": self.last_state,
            "ready": self.ready,
            "started": self.started,
            "restartCount": self.restart_count,
        }


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    """Return the state of a container that does not run yet, or not now."""
    return {"waiting": {"reason": reason, **({"message": message} if message else {})}}


def terminated(code: int, reason: str, started_at: str) -> dict[str, Any]:
    """Return the state of a container that exited."""
    details = {"exitCode": code, "reason": reason, "startedAt": started_at, "finishedAt": timestamp()}
    return {"terminated": details}


def pod_status(
    pod: Object,
    containers: Sequence[ContainerStatus],
    pod_ip: str | None,
    start_time: str,
    inits: Sequence[ContainerStatus] = (),
) -> Object:
    """Return the whole status, without conditions that others own (the scheduler's, readiness gates).

    `inits` are the init containers that run here.
    """
    conditions = {c["type"]: c for c in pod.get("status", {}).get("conditions") or []}
    gates = [gate["conditionType"] for gate in pod["spec"].get("readinessGates") or []]
    closed = [g for g in gates if conditions.get(g, {}).get("status") != "True"]
    sidecars = {c["name"] for c in pod["spec"].get("initContainers") or [] if is_sidecar(c)}
    unready = [c.name for c in (*(init for init in inits if init.name in sidecars), *containers) if not c.ready]
    has_address = pod_ip is not None
    open_inits = [c.name for c in inits if not (c.started or c.last_state if c.name in sidecars else c.succeeded)]
    initialized = has_address and not open_inits
    found = [
        _condition("PodReadyToStartContainers", has_address, "", "", conditions),
        _condition("Initialized", initialized, "ContainersNotInitialized", f"not complete: {open_inits}", conditions),
        _condition("ContainersReady", not unready, "ContainersNotReady", f"containers not ready: {unready}", conditions),
    ]
    if unready:
        found.append(_condition("Ready", False, "ContainersNotReady", f"containers not ready: {unready}", conditions))
    else:
        message = f"readiness gates not open: {closed}"
        found.append(_condition("Ready", not closed, "ReadinessGatesNotReady", message, conditions))
    own = {c.name: {**c.to_api(), **({} if c.name in sidecars else {"ready": c.succeeded})} for c in inits}
    init_statuses = [own.get(c["name"]) or _completed(c, start_time) for c in pod["spec"].get("initContainers") or []]
    status: Object = {
        "phase": phase(pod, containers),
        "conditions": found,
        "hostIP": HOST_IP,
        "hostIPs": [{"ip": HOST_IP}],
        "startTime": start_time,
        "containerStatuses": [container.to_api() for container in containers],
    }
    if pod_ip is not None:
        status |= {"podIP": pod_ip, "podIPs": [{"ip": pod_ip}]}
    if has_address and init_statuses:
        status["initContainerStatuses"] = init_statuses
    return status


def phase(pod: Object, containers: Sequence[ContainerStatus]) -> str:
    """Return Pending before the first container ran, Succeeded or Failed once none will run again, else Running."""
    ended = [c.state["terminated"] for c in containers if "terminated" in c.state]
    final = pod["spec"].get("restartPolicy", "Always") != "Always" or "deletionTimestamp" in pod["metadata"]
    if final and len(ended) == len(containers):
        return "Succeeded" if all(e["exitCode"] == 0 for e in ended) else "Failed"
    begun = any("running" in c.state or "terminated" in c.state or c.last_state for c in containers)
    return "Running" if begun else "Pending"


def is_ready(status: Object) -> bool | None:
    """Return the readiness in a pod's status; None without one."""
    said = next((c["status"] for c in status.get("conditions") or [] if c["type"] == "Ready"), None)
    return None if said is None else said == "True"


def is_sidecar(container: Mapping[str, Any]) -> bool:
    """Return whether an init container continues to run next to the others.

    https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/
    """
    return container.get("restartPolicy") == "Always"


def _condition(kind: str, true: bool, reason: str, message: str, before: dict[str, Object]) -> Object:
    status = "True" if true else "False"
    old = before.get(kind, {})
    since = old.get("lastTransitionTime") if old.get("status") == status else None
    # Under a strategic merge, a missing reason would keep the old one.
    explained = {"reason": None, "message": None} if true else {"reason": reason, "message": message or None}
    return {"type": kind, "status": status, "lastTransitionTime": since or timestamp(), **explained}


def _completed(container: Object, at: str) -> Object:
    """Return the status of an init container that does not run here: completed, or running if it is a sidecar."""
    sidecar = is_sidecar(container)
    done = {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": at, "finishedAt": at}}
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "ready": True,
        "started": sidecar,
        "restartCount": 0,
        "state": {"running": {"startedAt": at}} if sidecar else done,
    }
