"""The pods that run on system nodes, and the room that there is: the gateway's and the workers'."""

from collections.abc import Iterator
from dataclasses import dataclass

from spec.catalog import InstanceType
from spec.problem import Problem
from spec.settings.fields import cpu_millis
from spec.settings.relations.subject import Subject
from spec.settings.rule import rule, warning
from spec.settings.section import Absent


@dataclass(frozen=True)
class _Pods:
    """The pods of one section: what each asks for, how many there are in any case (at `key`) and, scaled, at most."""

    section: str
    cpu: str
    memory_mib: int
    key: str
    always: int
    most: int | None = None

    def on(self, known: InstanceType) -> int:
        """Return how many a node of a type has room for, beside the kubelet and the add-ons."""
        return min(
            known.usable_cpu_millis // cpu_millis(self.cpu),
            int(known.usable_memory_gib * 1024) // self.memory_mib,
            known.max_pods,
        )


def _pods(subject: Subject) -> list[_Pods]:
    """Return the pods of the gateway and of the workers, where their sections are there and valid."""
    found = []
    for read in (_of_the_gateway, _of_the_workers):
        try:
            found += read(subject)
        except Absent:
            continue
    return found


def _of_the_gateway(subject: Subject) -> list[_Pods]:
    gateway = subject.document.gateway
    return [_Pods("gateway", gateway.cpu, gateway.memory_mib, "replicas", gateway.replicas)] if gateway is not None else []


def _of_the_workers(subject: Subject) -> list[_Pods]:
    worker = subject.document.worker
    if worker is None:
        return []
    if worker.autoscaler == "none":
        return [_Pods("worker", worker.cpu, worker.memory_mib, "replicas", worker.replicas or 0)]
    return [_Pods("worker", worker.cpu, worker.memory_mib, "minReplicas", worker.min_replicas or 0, worker.max_replicas)]


def _types(subject: Subject) -> list[InstanceType]:
    system = subject.document.nodes.system
    if len(system.types) != len(system.instance_types):
        raise Absent("instanceTypes")
    return system.types


def _nodes(subject: Subject) -> tuple[str, int]:
    """Return the key that says how many system nodes there are at most, and the number: only one autoscaler adds any."""
    system = subject.document.nodes.system
    return ("max", system.max) if subject.document.node_autoscaler == "cluster-autoscaler" else ("desired", system.desired)


@rule
def _a_pod_fits_a_node(subject: Subject) -> Iterator[Problem]:
    """Require pods of the gateway and of workers that a system node has room for."""
    smallest_cpu = min(_types(subject), key=lambda known: known.usable_cpu_millis)
    smallest_memory = min(_types(subject), key=lambda known: known.usable_memory_gib)
    millis, mib = smallest_cpu.usable_cpu_millis, int(smallest_memory.usable_memory_gib * 1024)
    for pods in _pods(subject):
        if cpu_millis(pods.cpu) > millis:
            yield Problem(
                f"{pods.section}.cpu",
                f"{pods.cpu} vCPUs are more than a {smallest_cpu.name} of nodes.system has left beside the kubelet and the "
                f'add-ons; use at most "{millis}m", or larger system nodes',
            )
        if pods.memory_mib > mib:
            yield Problem(
                f"{pods.section}.memoryMiB",
                f"{pods.memory_mib} MiB are more than a {smallest_memory.name} of nodes.system has left beside the kubelet "
                f"and the add-ons; use at most {mib}, or larger system nodes",
            )


@rule
def _pods_fit_the_nodes(subject: Subject) -> Iterator[Problem]:
    """Require system nodes that hold the gateway's pods and the fewest workers, each by themselves."""
    key, nodes = _nodes(subject)
    for pods in _pods(subject):
        room = nodes * min(map(pods.on, _types(subject)))
        if room and pods.always > room:
            yield Problem(f"{pods.section}.{pods.key}", _too_many(pods.always, key, nodes, room))


@warning
def _workers_fit_the_nodes(subject: Subject) -> Iterator[Problem]:
    """Warn of more workers than system nodes hold: the rest would wait."""
    key, nodes = _nodes(subject)
    for pods in _pods(subject):
        room = nodes * min(map(pods.on, _types(subject)))
        if pods.most is not None and room and pods.most > room >= pods.always:
            yield Problem(f"{pods.section}.maxReplicas", _too_many(pods.most, key, nodes, room))


def _too_many(pods: int, key: str, nodes: int, room: int) -> str:
    return (
        f"{pods} pods do not fit {'the' if nodes > 1 else 'on the'} {nodes} system node{'s' if nodes > 1 else ''} "
        f"(nodes.system.{key}), which hold {room}; use at most {room}, smaller pods, or more or larger nodes"
    )
