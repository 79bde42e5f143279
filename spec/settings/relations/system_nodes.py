"""The pods on nodes without GPUs, and the room on these nodes."""

from collections import Counter
from collections.abc import Iterator, Sequence

from spec.catalog import INSTANCE_TYPES, InstanceType
from spec.problem import Problem
from spec.settings.nodes import NodeGroup
from spec.settings.relations.subject import Subject, types_of
from spec.settings.rule import rule
from spec.settings.scheduling.packing import after_losing_a_zone, room_of, surge, total, without_room
from spec.settings.scheduling.pods import Pods, daemons, envoys, fleets_without_gpus, on_system_nodes, workers
from spec.subnets import zone_names
from spec.wording import one_of

_WITHOUT_A_ZONE = ("staging", "prod")
_MOST_NODES = 100
_MOST_NAMED = 4


@rule
def _an_envoy_fits_a_node(subject: Subject) -> Iterator[Problem]:
    """Require gateway pods that fit on a system node."""
    yield from _fits_a_node(subject, "gateway", envoys(subject.document), subject.document.nodes.system)


@rule
def _a_worker_fits_a_node(subject: Subject) -> Iterator[Problem]:
    """Require workers that fit on one of their nodes."""
    nodes = subject.document.nodes
    yield from _fits_a_node(subject, "worker", workers(subject.document), nodes.cpu or nodes.system)


def _fits_a_node(subject: Subject, section: str, pods: Sequence[Pods], group: NodeGroup) -> Iterator[Problem]:
    room = room_of(types_of(group), daemons(subject.document, gpu=False))
    for one in pods:
        most = room.free + one.beside * -1
        left = f"more than a {_names(group)} of the {group.called} has left beside the kubelet and the add-ons; use at most"
        if one.request.millis > room.free.millis:
            asked = one.request.millis - one.beside.millis
            yield Problem(f"{section}.cpu", f'{asked / 1000:g} vCPUs are {left} "{most.millis}m", or larger nodes')
        if one.request.mib > room.free.mib:
            asked = one.request.mib - one.beside.mib
            yield Problem(f"{section}.memoryMiB", f"{asked} MiB are {left} {most.mib}, or larger nodes")


@rule
def _everything_fits_the_system_nodes(subject: Subject) -> Iterator[Problem]:
    """Require system nodes with room for the maximum of their pods, plus one pod for an update.

    Only cluster-autoscaler grows the nodes from `min` to `max`. Otherwise their number is `desired`, and in staging and prod
    the pods have to fit on the remaining nodes after the loss of the zone with the most nodes.
    """
    document = subject.document
    system = document.nodes.system
    types, others = types_of(system), on_system_nodes(document)
    here = workers(document) if document.nodes.cpu is None else []
    pods = [*others, *here]
    grows = document.node_autoscaler == "cluster-autoscaler"
    key, nodes = ("max", system.max) if grows else ("desired", system.desired)
    zones = len(zone_names(document.network.node_zones))
    loses = subject.environment in _WITHOUT_A_ZONE and not grows and zones > 1
    on_each = daemons(document, gpu=False)
    room = room_of(types, on_each)
    if any(not room.holds(one.request) for one in (*envoys(document), *here)):
        return  # reported with the key of that pod

    def left(count: int) -> int:
        return after_losing_a_zone(count, zones) if loses else count

    def fits(wanted: Sequence[Pods], count: int, of: Sequence[InstanceType]) -> bool:
        return not without_room([*wanted, *surge(wanted)], left(count), room_of(of, on_each))

    everything = [*pods, *surge(pods)]
    pending = without_room(everything, left(nodes), room)
    if not pending:
        return
    enough = next((count for count in range(nodes + 1, _MOST_NODES) if fits(pods, count, types)), None)
    larger = next((one for one in _larger(types) if fits(pods, nodes, [one])), None)
    ways = [f"{enough} nodes"] if enough is not None else []
    ways += [f"{larger.name} for nodes.system.instanceTypes"] if larger is not None else []
    if document.node_autoscaler == "karpenter" and here:
        ways.append("nodes.cpu for the workers" + ("" if fits(others, nodes, types) else " beside one of these"))
    lost = f", of which {left(nodes)} {'is' if left(nodes) == 1 else 'are'} left when a zone is lost," if loses else ""
    yield Problem(
        f"nodes.system.{key}",
        f"{nodes} x {_names(system)}{lost} {'has' if nodes == 1 and not lost else 'have'} no room for "
        f"{_listed(pending, everything)}: the {sum(one.count for one in everything)} pods ask for {total(everything)}, and "
        f"{_nodes(left(nodes))} for {room.free * left(nodes)} beside the kubelet and DaemonSets; "
        f"give {one_of(ways) if ways else 'smaller or fewer pods'}",
    )


@rule
def _workers_fit_their_nodes(subject: Subject) -> Iterator[Problem]:
    """Require nodes.cpu.max for all workers, one more for an update, and all pods of fleets without GPUs."""
    document = subject.document
    group = document.nodes.cpu
    if group is None:
        return
    room, pods = room_of(types_of(group), daemons(document, gpu=False)), [*workers(document), *fleets_without_gpus(document)]
    wanted = [*pods, *surge(pods)]
    if any(not room.holds(one.request) for one in pods):
        return  # reported with the key of the worker or the fleet
    pending = without_room(wanted, group.max, room)
    if pending:
        more = range(group.max + 1, _MOST_NODES * 10)
        enough = next((count for count in more if not without_room(wanted, count, room)), None)
        fewer = "fewer workers" if len(pods) == len(workers(document)) else "fewer pods"
        yield Problem(
            "nodes.cpu.max",
            f"{group.max} x {_names(group)} have no room for {_listed(pending, wanted)}: the "
            f"{sum(one.count for one in wanted)} pods ask for {total(wanted)}, and {_nodes(group.max)} for "
            f"{room.free * group.max} beside the kubelet and DaemonSets; give {f'{enough}, ' if enough else ''}"
            f"larger types, or {fewer}",
        )


def _larger(types: Sequence[InstanceType]) -> list[InstanceType]:
    """Return the larger types in the family of the first one, smallest first."""
    family = [known for known in INSTANCE_TYPES.values() if known.family == types[0].family]
    return sorted((known for known in family if known.vcpus > types[0].vcpus), key=lambda known: known.vcpus)


def _names(group: NodeGroup) -> str:
    return " or ".join(group.instance_types)


def _nodes(count: int) -> str:
    return "that node has room" if count == 1 else f"{count} nodes have room"


def _listed(pending: Counter[str], pods: Sequence[Pods]) -> str:
    """Return the pods without room and the request of each: `envoy (2 of 3, 1010m CPU and 1056 MiB each)`."""
    found = [
        f"{one.name} ({pending[one.name]} of {one.count}, {one.request}{' each' if one.count > 1 else ''})"
        for one in sorted(pods, key=lambda one: -one.request.millis)
        if pending[one.name]
    ]
    more = len(found) - _MOST_NAMED
    return ", ".join(found[:_MOST_NAMED]) + (f" and {more} other{'s' if more > 1 else ''}" if more > 0 else "")
