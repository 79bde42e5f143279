"""Claims about nodes: what the cluster says of those that have joined."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from spec import gpu_pool
from spec.gpu_pool import GPU_TAINT, POOL_LABEL
from spec.settings import GpuPool
from stackctl.certify.outcome import Outcome, judged, not_tried
from stackctl.certify.subject import Object, Subject

_NODES = "/api/v1/nodes"
_PODS = "/api/v1/pods"
_CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"


def as_declared(subject: Subject) -> Outcome:
    """Hold labels, taint and GPUs of each GPU node that has joined against its pool."""
    right: list[str] = []
    wrong: list[str] = []
    for node, pool in _of_pools(subject):
        differences = list(_differences(node, pool))
        (wrong if differences else right).append(
            f"{_name(node)} of {pool.name}: " + ("; ".join(differences) or "labels, taint and GPUs as declared")
        )
    return judged(right, wrong, "no GPU node has joined")


def share_their_gpus(subject: Subject) -> Outcome:
    """Look whether nodes of pools that share GPUs offer as many of them as declared."""
    right: list[str] = []
    wrong: list[str] = []
    for node, pool in _of_pools(subject):
        if pool.sharing.strategy != "exclusive":
            resource = gpu_pool.gpu_resource(pool.sharing)
            wanted, offered = gpu_pool.advertised(pool)[resource], _allocatable(node, resource)
            (right if offered == wanted else wrong).append(f"{_name(node)} of {pool.name} offers {offered} {resource}")
    return judged(right, wrong, "no node of a pool that shares GPUs has joined")


def started_by_an_autoscaler(subject: Subject) -> Outcome:
    """Look for nodes that Karpenter has started. Which ones cluster-autoscaler has started, no node says."""
    if subject.settings.nodes.autoscaler != "karpenter":
        return not_tried("only Karpenter leaves a record of the nodes that it starts, and the stack has none")
    right: list[str] = []
    wrong: list[str] = []
    for claim in subject.objects(_CLAIMS):
        ready = condition(claim, "Ready")
        (right if ready == "True" else wrong).append(f"NodeClaim {_name(claim)}: Ready is {ready}")
    return judged(right, wrong, "Karpenter has started no node")


def every_pod_has_room(subject: Subject) -> Outcome:
    """Look for pods that no node takes. No zone is taken away for it."""
    pods, wrong = subject.objects(_PODS), []
    for pod in pods:
        for one in pod.get("status", {}).get("conditions") or []:
            if (one["type"], one["status"]) == ("PodScheduled", "False"):
                wrong.append(f"{pod['metadata']['namespace']}/{_name(pod)}: {one.get('message') or one.get('reason')}")
    return judged([f"each of {len(pods)} pods has a node"] if pods else [], wrong, "the cluster has no pod")


def condition(found: Object, kind: str) -> str:
    """Return the status of a condition of an object: True, False or Unknown, and "missing" where it has none."""
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
    taint = {"key": GPU_TAINT.key, "value": GPU_TAINT.value, "effect": GPU_TAINT.effect}
    if not any(taint.items() <= dict(found).items() for found in node.get("spec", {}).get("taints") or []):
        yield f"the taint {GPU_TAINT.key}={GPU_TAINT.value}:{GPU_TAINT.effect} is missing"
    resource = gpu_pool.gpu_resource(pool.sharing)
    wanted = gpu_pool.advertised(pool)[resource]
    if _allocatable(node, resource) != wanted:
        yield f"{resource} is {_allocatable(node, resource)}, not {wanted}"


def _allocatable(node: Object, resource: str) -> str:
    return str(node.get("status", {}).get("allocatable", {}).get(resource, "0"))


def _name(found: Object) -> str:
    return str(found["metadata"]["name"])
