"""Pods per node, and whether Karpenter puts several pods on a group's nodes."""

from typing import Any

import pytest

from spec.capacity import nodes_for, packs_pods, pods_per_node
from tests.spec.stack_config import settings
from tests.spec.test_fleets import THREE

# 4 GPUs each; 48, 96 and 192 vCPUs, 192, 384 and 768 GiB.
G5_OF_FOUR = ["g5.24xlarge", "g5.12xlarge"]
POOL = {
    "gpu.pools[0].instanceTypes": G5_OF_FOUR,
    "gpu.pools[0].min": 0,
    "gpu.pools[0].desired": 0,
    "nodes.autoscaler": "karpenter",
}


@pytest.mark.parametrize(
    ("cpu", "memory", "pods", "packed"),
    [("3", 12, 4, True), ("20", 12, 2, True), ("30", 12, 1, False), ("3", 100, 1, False)],
    ids=["four GPUs", "CPUs for two", "CPUs for one", "memory for one"],
)
def test_the_smallest_node_of_a_pool_decides_how_many_pods_a_node_holds(
    cpu: str, memory: int, pods: int, packed: bool
) -> None:
    """A g5.24xlarge holds 4, 4, 3 and 3 of these."""
    read = settings({**POOL, "triton.cpu": cpu, "triton.memoryGiB": memory})
    (pool, _) = read.gpu.pools
    assert (pods_per_node(read, pool), nodes_for(read, pool, 5)) == (pods, -(-5 // pods))
    assert packs_pods(read, pool) is packed


@pytest.mark.parametrize("autoscaler", ["none", "cluster-autoscaler"])
def test_only_karpenter_takes_a_preference_for_a_need(autoscaler: str) -> None:
    changes: dict[str, Any] = {**POOL, "nodes.autoscaler": autoscaler, "gpu.pools[0].desired": 1}
    read = settings(changes)
    assert pods_per_node(read, read.gpu.pools[0]) == 4
    assert packs_pods(read, read.gpu.pools[0]) is False


def test_a_pool_without_a_fleet_is_not_packed() -> None:
    read = settings(POOL)
    assert [packs_pods(read, pool) for pool in read.gpu.pools] == [True, False], "p4d has 8 GPUs and no pod of Triton"


@pytest.mark.parametrize(("small", "packed"), [({}, False), ({"fleets[1].pool": "p4d"}, True)], ids=["alone", "together"])
def test_one_fleet_of_small_pods_makes_a_pool_packed(small: dict[str, Any], packed: bool) -> None:
    read = settings({**THREE, "fleets[2].gpus": 8, "gpu.pools[1].max": 3, **small})
    assert packs_pods(read, read.gpu.pools[1]) is packed
