"""What runs in the twin's cluster, as `kubectl` sees it: pods, and the ready addresses of a service."""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spec.names import PROMETHEUS_PORT
from twin.charts import prometheus_objects
from twin.cluster import pod_addresses
from twin.cluster.kwok_stages import runs_as_process
from twin.cluster.node_objects import NODE_GROUP_LABEL

_ENDING = "Terminating"
"""What kubectl shows in the place of the phase of a pod that was deleted."""


class ClusterUnreadable(RuntimeError):
    """kubectl failed; the text is what it said."""


@dataclass(frozen=True)
class Pod:
    """A pod: `address` is its IP in the cluster, empty until it has one; `ready` is its Ready condition.

    `listens` is where its process listens on this machine, empty for a pod that has none. `status` is what kubectl shows as
    STATUS: the phase, or why a container waits (CrashLoopBackOff). `restarts` counts those of all its containers.
    """

    namespace: str
    name: str
    uid: str
    node: str
    address: str
    listens: str
    phase: str
    status: str
    restarts: int
    ready: bool

    @property
    def ending(self) -> bool:
        """Whether it was deleted; it may still be ready for a while."""
        return self.phase == _ENDING


@dataclass(frozen=True)
class ClusterView:
    """Reads the cluster with the given `kubectl` in the environment of one twin. Every method raises ClusterUnreadable."""

    kubectl: Path
    environment: Mapping[str, str]

    def pods(self) -> list[Pod]:
        """Every pod, by namespace and name."""
        items = self._get("pods", "--all-namespaces")
        return sorted((_pod(item) for item in items), key=lambda pod: (pod.namespace, pod.name))

    def nodes(self) -> list[str]:
        """The names of the nodes that are machines of a node group, sorted."""
        return sorted(item["metadata"]["name"] for item in self._get("nodes", f"--selector={NODE_GROUP_LABEL}"))

    def delete_unready_pods(self, namespace: str) -> None:
        """Deletes the pods of `namespace` that are not ready, without waiting for their end; their owners make new ones."""
        unready = [pod.name for pod in self.pods() if pod.namespace == namespace and not pod.ready and not pod.ending]
        if unready:
            self._do("delete", "pods", "--namespace", namespace, "--ignore-not-found", "--wait=false", *unready)

    def rolled_out(self, namespace: str, deployment: str) -> bool:
        """Whether every replica of the Deployment is of its newest revision and available (`kubectl rollout status`)."""
        found = [d for d in self._get("deployments", "--namespace", namespace) if d["metadata"]["name"] == deployment]
        return bool(found) and _is_rolled_out(found[0])

    def ready_addresses(self, namespace: str, service: str) -> list[str]:
        """The IPs behind `service` that take new requests, sorted; what a client or kube-proxy would use."""
        return self._ready("--namespace", namespace, f"--selector=kubernetes.io/service-name={service}")

    def prometheus_urls(self) -> list[str]:
        """Where each Prometheus of the stack answers on this machine."""
        selector = f"--selector={prometheus_objects.LABEL}={prometheus_objects.CHART}"
        addresses = self._ready("--all-namespaces", selector)
        return [f"http://{pod_addresses.loopback(address)}:{PROMETHEUS_PORT}" for address in addresses]

    def warnings(self, namespace: str, pod: str) -> list[str]:
        """What the cluster complained about in a pod, oldest first, a line each."""
        selector = f"--field-selector=type=Warning,involvedObject.name={pod}"
        items = self._get("events", "--namespace", namespace, selector, "--sort-by=.lastTimestamp")
        return [f"{event['reason']}: {' '.join(event['message'].split())}" for event in items]

    def _ready(self, *selection: str) -> list[str]:
        slices = self._get("endpointslices", *selection)
        endpoints = [endpoint for s in slices for endpoint in s.get("endpoints") or []]
        return sorted({a for e in endpoints if (e.get("conditions") or {}).get("ready") for a in e["addresses"]})

    def _get(self, *arguments: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = json.loads(self._do("get", *arguments, "--output=json"))["items"]
        return items

    def _do(self, *arguments: str) -> str:
        command = [str(self.kubectl), *arguments]
        done = subprocess.run(command, env=self.environment, check=False, capture_output=True, text=True)
        if done.returncode != 0:
            raise ClusterUnreadable(f"`kubectl {' '.join(arguments)}` failed: {done.stderr.strip()}")
        return done.stdout


def _is_rolled_out(deployment: dict[str, Any]) -> bool:
    status, wanted = deployment.get("status", {}), deployment["spec"]["replicas"]
    counts = [status.get(key, 0) for key in ("replicas", "updatedReplicas", "availableReplicas")]
    return status.get("observedGeneration") == deployment["metadata"]["generation"] and counts == [wanted] * 3


def _pod(item: dict[str, Any]) -> Pod:
    metadata, status = item["metadata"], item.get("status", {})
    containers = status.get("containerStatuses") or []
    waiting = [c["state"]["waiting"]["reason"] for c in containers if "reason" in c.get("state", {}).get("waiting", {})]
    phase = _ENDING if metadata.get("deletionTimestamp") else status.get("phase", "")
    address = status.get("podIP", "")
    return Pod(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        node=item["spec"].get("nodeName", ""),
        address=address,
        listens=pod_addresses.loopback(address) if address and runs_as_process(item) else "",
        phase=phase,
        status=waiting[0] if waiting and phase != _ENDING else phase,
        restarts=sum(c.get("restartCount", 0) for c in containers),
        ready=any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions") or []),
    )
