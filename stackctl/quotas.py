"""The service quotas that a stack takes up, from its settings alone: no credentials, no account.

vCPUs of EC2 are counted by family and by market, as AWS does it: Standard, G and VT, and P instances, on demand and spot. A
Capacity Block is outside of these quotas; an on-demand reservation is within.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from spec.capacity import nodes_for, nodes_for_workers
from spec.catalog import InstanceType
from spec.settings import GpuPool, Settings
from spec.settings.nodes import CPU_POOL_NAME, SYSTEM_GROUP_NAME
from spec.subnets import nat_zones


@dataclass(frozen=True)
class Quota:
    """A quota by the two codes that AWS knows it by. `unit` is what it counts; `per_zone`: in each availability zone."""

    service: str
    code: str
    name: str
    unit: str
    per_zone: bool = False


STANDARD = Quota("ec2", "L-1216C47A", "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances", "vCPUs")
G = Quota("ec2", "L-DB2E81BA", "Running On-Demand G and VT instances", "vCPUs")
P = Quota("ec2", "L-417A185B", "Running On-Demand P instances", "vCPUs")
STANDARD_SPOT = Quota("ec2", "L-34B43A08", "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests", "vCPUs")
G_SPOT = Quota("ec2", "L-3819A6DF", "All G and VT Spot Instance Requests", "vCPUs")
P4_SPOT = Quota("ec2", "L-7212CCBC", "All P4, P3 and P2 Spot Instance Requests", "vCPUs")
P5_SPOT = Quota("ec2", "L-C4BD4855", "All P5 Spot Instance Requests", "vCPUs")
ADDRESSES = Quota("ec2", "L-0263D0A3", "EC2-VPC Elastic IPs", "addresses")
VPCS = Quota("vpc", "L-F678F1CE", "VPCs per Region", "VPCs")
INTERNET_GATEWAYS = Quota("vpc", "L-A4707A72", "Internet gateways per Region", "gateways")
NAT_GATEWAYS = Quota("vpc", "L-FE5A380F", "NAT gateways per Availability Zone", "gateways", per_zone=True)
CLUSTERS = Quota("eks", "L-1194D53C", "Clusters", "clusters")
NODE_GROUPS = Quota("eks", "L-6D54EA21", "Managed node groups per cluster", "groups")
NODES_OF_A_GROUP = Quota("eks", "L-BD136A63", "Nodes per managed node group", "nodes")

_ON_DEMAND: Mapping[str, Quota] = {"g": G, "p": P} | dict.fromkeys("acdhimrtz", STANDARD)
_SPOT: Mapping[str, Quota] = {"g": G_SPOT, "p": P4_SPOT} | dict.fromkeys("acdhimrtz", STANDARD_SPOT)
_OTHER_QUOTAS = ("inf", "trn", "dl", "mac", "hpc")
"""Families with quotas of their own whose names begin with a letter of another one."""


@dataclass(frozen=True)
class QuotaNeed:
    """The part of one quota that a stack takes, in the quota's unit.

    `at_start` is what `pulumi up` itself takes; where it is not to be had, `up` fails or waits in vain. `at_most` is with
    every pool at its `max`; where that is not to be had, scaling ends early. `takers` say whose it is.
    """

    quota: Quota
    at_start: int
    at_most: int
    takers: tuple[str, ...]


def instance_quota(instance_type: str, *, spot: bool) -> Quota | None:
    """Return the quota that an instance counts towards.

    None for families that this platform has nothing to do with, and for p6 on spot, whose quota's code no source gives.
    """
    family = instance_type.partition(".")[0]
    if family.startswith(_OTHER_QUOTAS) or (spot and family.startswith("p6")):
        return None
    if family.startswith("vt"):
        return G_SPOT if spot else G
    if spot and family.startswith("p5"):
        return P5_SPOT
    return (_SPOT if spot else _ON_DEMAND).get(family[:1])


def needed_quotas(settings: Settings) -> list[QuotaNeed]:
    """Return every quota that the stack takes something of, each once."""
    needs: dict[Quota, QuotaNeed] = {}
    for need in (*_instances(settings), *_network(settings), *_cluster(settings)):
        before = needs.get(need.quota, QuotaNeed(need.quota, 0, 0, ()))
        needs[need.quota] = QuotaNeed(
            need.quota,
            before.at_start + need.at_start,
            before.at_most + need.at_most,
            (*before.takers, *need.takers),
        )
    return list(needs.values())


def nodes_at_start(settings: Settings, pool: GpuPool) -> int:
    """Return the nodes of a pool that `pulumi up` starts, itself or by the autoscaler that it installs."""
    return max(pool.desired, _nodes_of_the_fewest_pods(settings, pool))


def _instances(settings: Settings) -> Iterator[QuotaNeed]:
    system = settings.nodes.system
    yield from _group(SYSTEM_GROUP_NAME, system.types, "on-demand", system.desired, system.max)
    cpu = settings.nodes.cpu
    if cpu is not None:
        fewest = settings.worker.fewest if settings.worker is not None else 0
        first = nodes_for_workers(
            settings, fewest, {fleet.release: _fewest_pods(fleet.stack) for fleet in settings.each_fleet}
        )
        yield from _group(CPU_POOL_NAME, cpu.types, "on-demand", first, cpu.max)
    for pool in settings.gpu.pools:
        yield from _group(pool.name, pool.types, pool.capacity, nodes_at_start(settings, pool), pool.max)


def _group(name: str, group: list[InstanceType], capacity: str, first: int, most: int) -> Iterator[QuotaNeed]:
    """Yield the needs of one group. EC2 chooses among its types: the smallest counts at the start, the largest at most."""
    if capacity == "capacity-block":
        return
    by_quota: dict[Quota, list[InstanceType]] = {}
    for known in group:
        quota = instance_quota(known.name, spot=capacity == "spot")
        if quota is not None:
            by_quota.setdefault(quota, []).append(known)
    for quota, types in by_quota.items():
        vcpus = [known.vcpus for known in types]
        taker = f"{name}: {first} to {most} x {' or '.join(known.name for known in types)}"
        yield QuotaNeed(quota, first * min(vcpus), most * max(vcpus), (taker,))


def _nodes_of_the_fewest_pods(settings: Settings, pool: GpuPool) -> int:
    """Return the nodes that an autoscaler starts at once for the fewest pods; 0 where the pool has none of them."""
    if settings.node_autoscaler == "none":
        return 0
    here = [fleet.stack for fleet in settings.each_fleet if fleet.stack.triton.pool == pool.name]
    return min(pool.max, sum(nodes_for(stack, pool, _fewest_pods(stack)) for stack in here))


def _fewest_pods(settings: Settings) -> int:
    """Return the minimum replicas of a fleet and its warm pods, also before the first release is pinned."""
    pods = settings.fewest_pods
    return pods + (settings.autoscaling.warm_pods if settings.autoscaling is not None else 0)


def _cluster(settings: Settings) -> Iterator[QuotaNeed]:
    if settings.cluster.existing is None:
        yield QuotaNeed(CLUSTERS, 1, 1, (settings.cluster_name,))
    pools = settings.gpu.pools if settings.node_autoscaler != "karpenter" else ()
    system = settings.nodes.system
    sizes = [(system.max, system.desired, SYSTEM_GROUP_NAME), *((pool.max, pool.desired, pool.name) for pool in pools)]
    yield QuotaNeed(NODE_GROUPS, len(sizes), len(sizes), tuple(name for *_, name in sizes))
    most, _, largest = max(sizes)
    yield QuotaNeed(NODES_OF_A_GROUP, max(desired for _, desired, _ in sizes), most, (f"at most {largest}",))


def _network(settings: Settings) -> Iterator[QuotaNeed]:
    if settings.network.existing is not None:
        return
    name = settings.cluster_name
    yield QuotaNeed(VPCS, 1, 1, (name,))
    yield QuotaNeed(INTERNET_GATEWAYS, 1, 1, (name,))
    gateways = len(nat_zones(settings.network.nat, settings.network.zones))
    if gateways:
        taker = f"NAT: {gateways} gateway{'s' if gateways > 1 else ''} with an address each"
        yield QuotaNeed(ADDRESSES, gateways, gateways, (taker,))
        yield QuotaNeed(NAT_GATEWAYS, 1, 1, (f"NAT in {gateways} zone{'s' if gateways > 1 else ''}",))
