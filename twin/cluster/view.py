"""Read the state of the twin's cluster: pods, nodes, and the ready addresses of a Service."""

from __future__ import annotations

from dataclasses import dataclass

from twin.cluster import pod_addresses
from twin.cluster.kube_api import KubeClient, Object, object_path
from twin.cluster.node_objects import NODE_GROUP_LABEL
from twin.cluster.services import of_service, ready

_ENDING = "Terminating"
"""The word that kubectl shows instead of the phase for a deleted pod."""


@dataclass(frozen=True)
class Pod:
    """A pod. `address`: its IP in the cluster, empty until it has one; `ready`: its Ready condition.

    `listens`: the address of its process on this machine, empty without a process. `status`: kubectl's STATUS, which is the
    phase or why a container waits (CrashLoopBackOff). `restarts`: the sum over its containers.
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
        """Return whether it was deleted; it may still be ready for a while."""
        return self.phase == _ENDING


@dataclass(frozen=True)
class ClusterView:
    """Reads the cluster. Every method raises KubeError."""

    client: KubeClient

    def pods(self) -> list[Pod]:
        """Return every pod, sorted by namespace and name."""
        return sorted(map(_pod, self._list("v1", "pods")), key=lambda pod: (pod.namespace, pod.name))

    def nodes(self) -> list[str]:
        """Return the sorted names of the nodes that belong to a node group."""
        return sorted(item["metadata"]["name"] for item in self._list("v1", "nodes", labelSelector=NODE_GROUP_LABEL))

    def delete_unready_pods(self, namespace: str) -> None:
        """Delete the pods of `namespace` that are not ready, without waiting; their owners create new ones."""
        for pod in self.pods():
            if pod.namespace == namespace and not pod.ready and not pod.ending:
                self.client.delete(object_path("v1", "pods", namespace, pod.name))

    def rolled_out(self, namespace: str, deployment: str) -> bool:
        """Return whether every replica of the Deployment has its newest revision and is available."""
        found = self.client.find(object_path("apps/v1", "deployments", namespace, deployment))
        return found is not None and _is_rolled_out(found)

    def wanted(self, namespace: str, deployment: str) -> int:
        """Return the desired replicas of the Deployment; 0 if it does not exist."""
        found = self.client.find(object_path("apps/v1", "deployments", namespace, deployment))
        return 0 if found is None else int(found["spec"]["replicas"])

    def ready_addresses(self, selector: str, namespace: str | None = None) -> list[str]:
        """Return the sorted IPs that take new requests behind the Services whose EndpointSlices have these labels.

        They are the addresses that a client or kube-proxy would use.
        """
        return ready(self._list("discovery.k8s.io/v1", "endpointslices", namespace, labelSelector=selector))

    def service_addresses(self, namespace: str, service: str) -> list[str]:
        """Return the IPs behind a Service that take new requests, sorted."""
        return self.ready_addresses(of_service(service), namespace)

    def load_balancers(self) -> dict[str, str]:
        """Return the addresses and ports of each Service of type LoadBalancer, by a readable name."""
        found = {}
        for item in self._list("v1", "services"):
            for ingress in (item.get("status") or {}).get("loadBalancer", {}).get("ingress") or []:
                addresses = [f"{ingress.get('ip') or ingress['hostname']}:{port['port']}" for port in item["spec"]["ports"]]
                found[f"load balancer of {item['metadata']['namespace']}"] = " ".join(addresses)
        return found

    def warnings(self, namespace: str, pod: str) -> list[str]:
        """Return the cluster's warnings about a pod, oldest first, one per line."""
        events = self._list("v1", "events", namespace, fieldSelector=f"type=Warning,involvedObject.name={pod}")
        events.sort(key=lambda event: event.get("lastTimestamp") or "")
        return [f"{event['reason']}: {' '.join(event['message'].split())}" for event in events]

    def _list(self, api_version: str, plural: str, namespace: str | None = None, **selection: str) -> list[Object]:
        return self.client.get(object_path(api_version, plural, namespace), **selection)["items"]


def _is_rolled_out(deployment: Object) -> bool:
    status, wanted = deployment.get("status", {}), deployment["spec"]["replicas"]
    counts = [status.get(key, 0) for key in ("replicas", "updatedReplicas", "availableReplicas")]
    return status.get("observedGeneration") == deployment["metadata"]["generation"] and counts == [wanted] * 3


def _pod(item: Object) -> Pod:
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
        listens=pod_addresses.loopback(address) if pod_addresses.is_of_a_process(address) else "",
        phase=phase,
        status=waiting[0] if waiting and phase != _ENDING else phase,
        restarts=sum(c.get("restartCount", 0) for c in containers),
        ready=any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions") or []),
    )
