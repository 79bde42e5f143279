"""Tell when an update has to wait for nodes: pods of new Deployments of Triton start before those of old ones end.

Only a comparison knows of both: the stack file of now, and so `pulumi up` itself, has none of the old ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import ceil

from spec.capacity import pods_per_node
from spec.settings import GpuPool, Settings
from spec.settings.fleets import Fleet
from spec.settings.nodes import CpuPool

_Fleets = Sequence[Fleet[Settings]]


def waits_for_nodes(now: Settings, then: Settings) -> Iterator[str]:
    """Yield, for each group of nodes that is too small for old and new pods at a time, what waits and what would be enough.

    Of the fleets that stay and of the new ones the fewest pods count, for which `up` waits.
    """
    old, new = _released(then), _released(now)
    before, after = ({fleet.release for fleet in fleets} for fleets in (old, new))
    groups: list[GpuPool | CpuPool] = [*now.gpu.pools, *([now.nodes.cpu] if now.nodes.cpu is not None else [])]
    for group in groups:
        going = [fleet for fleet in old if fleet.release not in after and _on(fleet, group)]
        coming = [fleet for fleet in new if fleet.release not in before and _on(fleet, group)]
        staying = [fleet for fleet in old if fleet.release in after and _on(fleet, group)]
        fixed = group.desired if isinstance(group, GpuPool) and now.node_autoscaler == "none" else None
        room = group.max if fixed is None else fixed
        needed = ceil(sum(_nodes(fleet, group, _most(fleet.stack)) for fleet in going) + _fewest(group, coming, staying))
        if not going or not coming or needed <= room:
            continue
        key = f"gpu.pools ({group.name})" if isinstance(group, GpuPool) else "nodes.cpu"
        left = room - _fewest(group, coming, staying)
        yield (
            f"{key}: `pulumi up` starts {_pods(coming, fewest=True)} before it ends {_pods(going)}, and {room} nodes do not "
            f"hold both: it waits for nodes as long as {_held(going, group, left)}; give "
            f"{'max' if fixed is None else 'desired'} {needed} for this update, and {room} again after it (docs/fleets.md)"
        )


def _released(settings: Settings) -> _Fleets:
    return settings.each_fleet if settings.models.release is not None else ()


def _on(fleet: Fleet[Settings], group: GpuPool | CpuPool) -> bool:
    return fleet.stack.triton_nodes.name == group.name


def _most(settings: Settings) -> int:
    return settings.autoscaling.max_replicas if settings.autoscaling is not None else settings.fewest_pods


def _nodes(fleet: Fleet[Settings], group: GpuPool | CpuPool, pods: int) -> Fraction:
    """Return the nodes that pods of a fleet fill, which may share one with those of others."""
    return Fraction(pods, pods_per_node(fleet.stack, group))


def _fewest(group: GpuPool | CpuPool, *fleets: _Fleets) -> Fraction:
    found = [_nodes(fleet, group, fleet.stack.fewest_pods) for some in fleets for fleet in some]
    return sum(found, start=Fraction())


def _pods(fleets: _Fleets, *, fewest: bool = False) -> str:
    """Name fleets with their pods: `2 to 4 pods of triton`, `2 pods of triton-a and 1 of triton-b`."""
    counted = []
    for fleet in fleets:
        least, most = fleet.stack.fewest_pods, _most(fleet.stack)
        most = least if fewest else most
        number = f"{least}" if least == most else f"{least} to {most}"
        counted.append(f"{number} pod{'' if most == 1 else 's'} of {fleet.release}")
    return " and ".join(counted)


def _held(going: _Fleets, group: GpuPool | CpuPool, left: Fraction) -> str:
    """Say from how many pods on the old Deployments keep the nodes that the new ones need."""
    names = " and ".join(fleet.release for fleet in going)
    there = f"{names} {'has' if len(going) == 1 else 'have'}"
    most = int(max(left, Fraction()) * min(pods_per_node(fleet.stack, group) for fleet in going))
    return f"{there} more than {most} pod{'' if most == 1 else 's'}" if most else f"{there} any pod"
