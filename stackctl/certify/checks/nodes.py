"""Check claims about nodes: the cluster's data about nodes that have joined."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

from spec import gpu_pool
from spec.gpu_pool import GPU_TAINT, POOL_LABEL
from spec.settings import GpuPool
from stackctl.certify.outcome import Outcome, agree, judged, not_tried
from stackctl.certify.subject import Object, Subject

_NODES = "/api/v1/nodes"
_PODS = "/api/v1/pods"
_CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"


def as_declared(subject: Subject) -> Outcome:
    """Compare labels, taint and GPUs of each joined GPU node with its pool."""
    seen = []
    for node, pool in _of_pools(subject):
        differences = "; ".join(_differences(node, pool))
        seen.append(
            (not differences, f"{_name(node)} of {pool.name}: {differences or 'labels, taint and GPUs as declared'}")
        )
    return judged(seen, not_tried("no GPU node has joined"))


def share_their_gpus(subject: Subject) -> Outcome:
    """Check that nodes of pools that share GPUs offer the declared number of them."""
    seen = []
    for node, pool in _of_pools(subject):
        if pool.sharing.strategy != "exclusive":
            resource = gpu_pool.gpu_resource(pool.sharing)
            wanted, offered = gpu_pool.advertised(pool)[resource], _allocatable(node, resource)
            seen.append((offered == wanted, f"{_name(node)} of {pool.name} offers {offered} {resource}"))
    return judged(seen, not_tried("no node of a pool that shares GPUs has joined"))


def started_by_an_autoscaler(subject: Subject) -> Outcome:
    """Check the nodes that Karpenter started. Nodes do not record a start by cluster-autoscaler."""
    if subject.settings.nodes.autoscaler != "karpenter":
        return not_tried("only Karpenter leaves a record of the nodes that it starts, and the stack has none")
    ready = [(_name(claim), condition(claim, "Ready")) for claim in subject.objects(_CLAIMS)]
    seen = [(status == "True", f"NodeClaim {name}: Ready is {status}") for name, status in ready]
    return judged(seen, not_tried("Karpenter has started no node"))


def every_pod_has_room(subject: Subject) -> Outcome:
    """Check that every pod fits a node. The check removes no zone."""
    pods = subject.objects(_PODS)
    seen = [
        (False, f"{pod['metadata'].get('namespace')}/{_name(pod)}: {one.get('message') or one.get('reason')}")
        for pod in pods
        for one in pod.get("status", {}).get("conditions") or []
        if (one["type"], one["status"]) == ("PodScheduled", "False")
    ]
    return judged(seen, agree(f"each of {len(pods)} pods has a node") if pods else not_tried("the cluster has no pod"))


def condition(found: Object, kind: str) -> str:
    """Return the status of a condition of an object: True, False, Unknown, or "missing"."""
    conditions: Sequence[Mapping[str, str]] = found.get("status", {}).get("conditions") or []
    return next((one["status"] for one in conditions if one["type"] == kind), "missing")


def _of_pools(subject: Subject) -> Iterator[tuple[Object, GpuPool]]:
    pools = {pool.name: pool for pool in subject.settings.gpu.pools}
    for node in subject.objects(_NODES):
        pool = pools.get(node["metadata"].get("labels", {}).get(POOL_LABEL, ""))
        if pool is not None:
            yield node, pool


def _differences(node: Object, pool: GpuPool) -> Iterator[str]:
    labels = node["metadata"].get("labels", {})
    for key, value in gpu_pool.labels(pool).items():
        if labels.get(key) != value:
            yield f"label {key} is {labels.get(key)}, not {value}"
    if not any(asdict(GPU_TAINT).items() <= dict(found).items() for found in node.get("spec", {}).get("taints") or []):
        yield f"the taint {GPU_TAINT.key}={GPU_TAINT.value}:{GPU_TAINT.effect} is missing"
    resource = gpu_pool.gpu_resource(pool.sharing)
    wanted = gpu_pool.advertised(pool)[resource]
    if _allocatable(node, resource) != wanted:
        yield f"{resource} is {_allocatable(node, resource)}, not {wanted}"


def _allocatable(node: Object, resource: str) -> str:
    return str(node.get("status", {}).get("allocatable", {}).get(resource, "0"))


def _name(found: Object) -> str:
    return str(found["metadata"]["name"])
