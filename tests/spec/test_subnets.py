"""The subnet plan: no overlaps, all inside the VPC, and no moves when a zone is added."""

from ipaddress import IPv4Network
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec.subnets import addresses_per_node, nat_zones, plan, usable_addresses

_VPCS = st.builds(
    lambda address, prefix: IPv4Network((address, prefix), strict=False),
    st.integers(min_value=0x0A000000, max_value=0x0AFFFFFF),
    st.integers(min_value=16, max_value=20),
)


@given(_VPCS, st.integers(min_value=1, max_value=4))
def test_blocks_lie_inside_the_vpc_and_apart_from_one_another(cidr: IPv4Network, zones: int) -> None:
    drawn = plan(cidr, zones)
    blocks = [*drawn.public, *drawn.private, *drawn.intra]
    assert len(blocks) == 3 * zones
    assert all(block.subnet_of(cidr) for block in blocks)
    assert not any(one.overlaps(other) for one, other in combinations(blocks, 2))


@given(_VPCS, st.integers(min_value=1, max_value=4))
def test_nodes_get_half_of_each_zone_and_the_other_blocks_a_quarter(cidr: IPv4Network, zones: int) -> None:
    for zone in plan(cidr, zones).zones:
        assert zone.private.num_addresses == cidr.num_addresses // 8
        assert zone.public.num_addresses == zone.intra.num_addresses == cidr.num_addresses // 16


@given(_VPCS, st.integers(min_value=1, max_value=3))
def test_adding_a_zone_moves_no_subnet(cidr: IPv4Network, zones: int) -> None:
    assert plan(cidr, zones + 1).zones[:zones] == plan(cidr, zones).zones


def test_a_plan_in_numbers() -> None:
    drawn = plan(IPv4Network("10.40.0.0/16"), ["us-west-2a", "us-west-2c"])
    assert [(zone.zone, str(zone.private), str(zone.public), str(zone.intra)) for zone in drawn.zones] == [
        ("us-west-2a", "10.40.0.0/19", "10.40.32.0/20", "10.40.48.0/20"),
        ("us-west-2c", "10.40.64.0/19", "10.40.96.0/20", "10.40.112.0/20"),
    ]


def test_zones_that_are_only_counted_are_numbered() -> None:
    assert [zone.zone for zone in plan(IPv4Network("10.0.0.0/20"), 2).zones] == ["1", "2"]


@pytest.mark.parametrize("zones", [0, 5, ["a", "a"]], ids=str)
def test_an_impossible_number_of_zones_is_refused(zones: int | list[str]) -> None:
    with pytest.raises(ValueError, match="distinct zones"):
        plan(IPv4Network("10.0.0.0/16"), zones)


@pytest.mark.parametrize(
    ("cidr", "zones", "smallest"),
    [("10.0.0.0/15", 2, 24), ("10.0.0.0/25", 2, 24), ("10.0.0.0/15", 3, 20), ("10.0.0.0/21", 3, 20)],
)
def test_a_vpc_of_another_size_is_refused(cidr: str, zones: int, smallest: int) -> None:
    with pytest.raises(ValueError, match=f"a subnet plan of {zones} zones takes a /16 to /{smallest}, not {cidr}"):
        plan(IPv4Network(cidr), zones)


def test_a_small_vpc_is_cut_into_halves() -> None:
    drawn = plan(IPv4Network("10.40.0.0/22"), 2)
    assert [(str(zone.private), str(zone.public), str(zone.intra)) for zone in drawn.zones] == [
        ("10.40.0.0/24", "10.40.1.0/25", "10.40.1.128/25"),
        ("10.40.2.0/24", "10.40.3.0/25", "10.40.3.128/25"),
    ]


def test_a_node_takes_whole_prefixes_one_in_advance_and_its_interfaces() -> None:
    assert addresses_per_node(110) == 16 * (7 + 1) + 2
    assert addresses_per_node(250) == 16 * (16 + 1) + 2


def test_aws_keeps_five_addresses_of_a_subnet() -> None:
    assert usable_addresses(IPv4Network("10.0.0.0/24")) == 251


@pytest.mark.parametrize(("nat", "count"), [("none", 0), ("single", 1), ("per_az", 3)])
def test_nat_gateways_stand_in_no_zone_the_first_or_all(nat: str, count: int) -> None:
    zones = ("us-west-2a", "us-west-2b", "us-west-2d")
    assert (nat_zones(nat, zones), nat_zones(nat, 3)) == (zones[:count], ("1", "2", "3")[:count])
