"""Select the availability zones of a deployment: zones that offer its instance types.

A zone without the instance type does not fail at creation but much later, as a node group that never reaches its desired
size. Therefore the offering is checked before any resource is registered.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from spec.problem import Problem, SettingsError

# EKS refuses subnets in these zones for its control plane, whatever instances EC2 has (EKS user guide, "Subnet requirements
# for clusters"). They are listed by id, because a zone's name differs between accounts.
ZONES_WITHOUT_EKS = frozenset({"use1-az3", "usw1-az2", "cac1-az3"})


@dataclass(frozen=True)
class PoolPlacement:
    """The instance types of one GPU pool. Each of its zones has to offer all of them."""

    instance_types: tuple[str, ...]
    zones: tuple[str, ...] | None
    """The zones that the pool is limited to; None: every zone of the network."""


@dataclass(frozen=True)
class Offering:
    """The zones of a region that this account can use, and the zones of each instance type."""

    region: str
    available: frozenset[str]
    """The zones in which this account can have an EKS cluster."""
    by_type: Mapping[str, frozenset[str]]

    def zones_of(self, instance_types: Collection[str]) -> frozenset[str]:
        """Return the available zones that offer every one of `instance_types`."""
        zones = self.available
        for instance_type in instance_types:
            zones &= self.by_type.get(instance_type, frozenset())
        return zones


def select_zones(
    wanted: int | Sequence[str],
    pools: Sequence[PoolPlacement],
    cpu_types: Sequence[str],
    offering: Offering,
    source: str,
    path_of_zone: Callable[[int, str], str] = lambda index, _: f"network.zones[{index}]",
) -> tuple[str, ...]:
    """Choose the zones of the network. Their order decides which subnets they get, so an added zone must come last.

    `wanted` is the number of zones (the first suitable ones by name), or the zones themselves, which are then only checked.
    A pool with its own zones, which settings allow only with listed zones, must find its types there. All other pools must
    find their types in all zones of the network, and so must nodes without GPUs (`cpu_types`). A number follows the offering
    and may mean other zones later; a stack whose zones must not change lists them.

    `path_of_zone` returns the zone's path in the file. Raises SettingsError about the stack file `source`, with the missing
    types and the zones that offer them.
    """
    everywhere = [*(t for pool in pools if pool.zones is None for t in pool.instance_types), *cpu_types]
    problems = _confined_pool_problems(pools, offering)
    if isinstance(wanted, int):
        candidates = sorted(offering.zones_of(everywhere))
        zones = tuple(candidates[:wanted])
        if len(zones) < wanted:
            problems.append(
                Problem(
                    "network.zones",
                    f"{wanted} zones are asked for, but in {offering.region} only {len(zones)} offer "
                    f"{_types(everywhere)}: {_list(zones)}; {_where(everywhere, offering)}",
                )
            )
    else:
        zones = tuple(wanted)
        problems += _listed_zone_problems(zones, everywhere, offering, path_of_zone)
    if problems:
        raise SettingsError(source, problems)
    return zones


def control_plane_zones(zones: tuple[str, ...], offering: Offering, source: str) -> tuple[str, ...]:
    """Return the zones of the control plane: the network's zones, plus one without nodes if the network has only one.

    EKS requires two (EKS user guide, "Subnet requirements for clusters"). Raises SettingsError about the stack file `source`
    if there is no other zone.
    """
    others = sorted(offering.available - set(zones))
    if len(zones) > 1:
        return zones
    if not others:
        message = f"EKS asks for two zones, and {offering.region} has no other than {_list(zones)}; use another region"
        raise SettingsError(source, [Problem("network.zones", message)])
    return (*zones, others[0])


def _listed_zone_problems(
    zones: Sequence[str], everywhere: Sequence[str], offering: Offering, path_of_zone: Callable[[int, str], str]
) -> list[Problem]:
    problems = []
    for index, zone in enumerate(zones):
        path = path_of_zone(index, zone)
        if zone not in offering.available:
            valid = _list(offering.available)
            problems.append(
                Problem(path, f"'{zone}' is not a zone of {offering.region} where this account can have EKS; use {valid}")
            )
            continue
        missing = [t for t in everywhere if zone not in offering.by_type.get(t, frozenset())]
        if missing:
            problems.append(Problem(path, f"{zone} does not offer {_types(missing)}; {_where(missing, offering)}"))
    return problems


def _confined_pool_problems(pools: Sequence[PoolPlacement], offering: Offering) -> list[Problem]:
    return [
        Problem(
            f"gpu.pools[{position}].zones[{index}]",
            f"{zone} does not offer {_types(pool.instance_types)}; {_where(pool.instance_types, offering)}",
        )
        for position, pool in enumerate(pools)
        for index, zone in enumerate(pool.zones or ())
        if zone not in offering.zones_of(pool.instance_types)
    ]


def _types(instance_types: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(instance_types)) or "any instance type"


def _where(instance_types: Sequence[str], offering: Offering) -> str:
    places = (
        f"{t} is offered in {_list(offering.by_type.get(t, frozenset()) & offering.available)}"
        for t in dict.fromkeys(instance_types)
    )
    return "; ".join(places) or f"available zones: {_list(offering.available)}"


def _list(zones: Collection[str]) -> str:
    return ", ".join(sorted(zones)) or "no zone of this region"
