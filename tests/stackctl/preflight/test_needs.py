"""The quotas that a stack needs, and their amounts, only from its settings."""

from __future__ import annotations

from typing import Any

import pytest

from spec.settings import load_stack_file
from stackctl import quotas as needs
from stackctl.quotas import Quota, instance_quota, needed_quotas
from tests.paths import ROOT
from tests.spec.existing_config import IN_A_CLUSTER, IN_A_VPC
from tests.spec.stack_config import TODAY, settings
from tests.spec.test_stack_mistakes_autoscaling import KARPENTER
from tests.spec.test_stack_mistakes_relations import WORKER

GROUPS = {needs.STANDARD, needs.G, needs.P, needs.NODE_GROUPS, needs.NODES_OF_A_GROUP}


def amounts(changes: dict[str, Any] | None = None, stack: str = "staging") -> dict[Quota, tuple[int, int]]:
    return {need.quota: (need.at_start, need.at_most) for need in needed_quotas(settings(changes, stack))}


def test_a_stack_needs_what_its_groups_and_its_network_take() -> None:
    # system: 3 m7i.xlarge (4 vCPUs), g5: 2 to 4 g5.xlarge (4), p4d: 0 to 2 p4d.24xlarge (96).
    assert amounts() == {
        needs.STANDARD: (12, 12),
        needs.G: (8, 16),
        needs.P: (0, 192),
        needs.VPCS: (1, 1),
        needs.INTERNET_GATEWAYS: (1, 1),
        needs.ADDRESSES: (1, 1),
        needs.NAT_GATEWAYS: (1, 1),
        needs.CLUSTERS: (1, 1),
        needs.NODE_GROUPS: (3, 3),
        needs.NODES_OF_A_GROUP: (3, 4),
    }


def test_what_is_there_already_takes_no_quota_again() -> None:
    assert amounts(IN_A_VPC).keys() == {*GROUPS, needs.CLUSTERS}
    assert amounts(IN_A_CLUSTER).keys() == GROUPS


def test_karpenter_starts_nodes_without_groups_of_eks() -> None:
    assert amounts(KARPENTER)[needs.NODE_GROUPS] == (1, 1)


def test_nodes_for_workers_take_what_their_fewest_and_their_most_fill() -> None:
    """Of 4 vCPUs each: four workers of 1 fill two nodes; the maximum is three nodes."""
    worker = {**WORKER, "cpu": "1", "minReplicas": 4, "maxReplicas": 6}
    pool = {"instanceTypes": ["m7i.xlarge"], "max": 3, "diskGiB": 50}
    found = amounts({**KARPENTER, "worker": worker, "nodes.cpu": pool})
    assert found[needs.STANDARD] == (12 + 2 * 4, 12 + 3 * 4)


def test_a_nat_gateway_per_zone_takes_an_address_each_and_one_place_in_each_zone() -> None:
    found = amounts(stack="prod")
    assert (found[needs.ADDRESSES], found[needs.NAT_GATEWAYS]) == ((3, 3), (1, 1))


def test_spot_has_quotas_of_its_own() -> None:
    found = amounts({"gpu.pools[0].capacity": "spot"})
    assert (found[needs.G_SPOT], needs.G in found) == ((8, 16), False)


def test_a_capacity_block_is_outside_of_the_quotas() -> None:
    changes = {
        "gpu.pools[1].capacity": "capacity-block",
        "gpu.pools[1].reservationId": "cr-0123456789abcdef0",
        "gpu.pools[1].zones": ["us-west-2a"],
    }
    assert needs.P not in amounts(changes)


def test_of_several_types_the_smallest_counts_at_the_start_and_the_largest_at_most() -> None:
    assert amounts({"gpu.pools[0].instanceTypes": ["g5.xlarge", "g5.2xlarge"]})[needs.G] == (2 * 4, 4 * 8)


def test_two_pools_of_one_family_share_a_quota_and_are_both_named() -> None:
    found = needed_quotas(settings({"gpu.pools[1].instanceTypes": ["g6.xlarge"]}))
    (need,) = [need for need in found if need.quota == needs.G]
    assert (need.at_start, need.at_most) == (8, 16 + 8)
    assert need.takers == ("g5: 2 to 4 x g5.xlarge", "p4d: 0 to 2 x g6.xlarge")


def test_an_autoscaler_starts_nodes_for_the_fewest_pods_and_the_warm_ones() -> None:
    production = load_stack_file(ROOT / "stacks" / "Pulumi.prod.yaml", today=TODAY)
    (need,) = [need for need in needed_quotas(production) if need.quota == needs.G]
    # desired 0, but 3 pods and 1 warm pod, a GPU each: at first on a g5.xlarge, at most on a g5.4xlarge.
    assert (need.at_start, need.at_most) == (4 * 4, 16 * 16)


@pytest.mark.parametrize(
    ("instance_type", "spot", "quota"),
    [
        ("m7i.large", False, needs.STANDARD),
        ("t3.micro", True, needs.STANDARD_SPOT),
        ("g4dn.xlarge", False, needs.G),
        ("vt1.3xlarge", False, needs.G),
        ("g6.48xlarge", True, needs.G_SPOT),
        ("p4d.24xlarge", False, needs.P),
        ("p5.48xlarge", False, needs.P),
        ("p4de.24xlarge", True, needs.P4_SPOT),
        ("p5.48xlarge", True, needs.P5_SPOT),
        ("p6-b200.48xlarge", False, needs.P),
        ("p6-b200.48xlarge", True, None),
        ("inf2.xlarge", False, None),
        ("trn1.2xlarge", True, None),
        ("mac2.metal", False, None),
        ("u-6tb1.metal", False, None),
    ],
)
def test_an_instance_counts_towards_the_quota_of_its_family(instance_type: str, spot: bool, quota: Quota | None) -> None:
    assert instance_quota(instance_type, spot=spot) == quota


@pytest.mark.parametrize("stack", ["local", "dev", "staging", "prod"])
def test_no_quota_is_listed_twice(stack: str) -> None:
    found = [need.quota for need in needed_quotas(load_stack_file(ROOT / "stacks" / f"Pulumi.{stack}.yaml", today=TODAY))]
    assert len(found) == len(set(found))
