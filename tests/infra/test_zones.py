"""The zones that a network uses of those that EC2 offers, and the error if EC2 offers too few."""

from types import SimpleNamespace
from typing import Any

import pytest

from infra.aws import zones
from infra.aws.zones import read_offering
from spec.settings import Problem, SettingsError
from spec.zones import Offering, PoolPlacement, control_plane_zones, select_zones

SOURCE = "stacks/Pulumi.prod.yaml"
SYSTEM = ("m7i.large",)
ABC = frozenset({"us-west-2a", "us-west-2b", "us-west-2c"})
ABCD = ABC | {"us-west-2d"}
OFFERING = Offering(
    region="us-west-2",
    available=ABCD,
    by_type={
        "m7i.large": ABCD,
        "m6i.large": frozenset({"us-west-2c", "us-west-2d"}),
        # A zone with offers that is not available: impaired, or closed to this account.
        "g5.xlarge": frozenset({"us-west-2c", "us-west-2b", "us-west-2d", "us-west-2e"}),
        "p4d.24xlarge": frozenset({"us-west-2a", "us-west-2b", "us-west-2c"}),
    },
)
G5 = PoolPlacement(("g5.xlarge",), None)
P4D = PoolPlacement(("p4d.24xlarge",), None)


def _problems(wanted: int | tuple[str, ...], *pools: PoolPlacement, system: tuple[str, ...] = SYSTEM) -> list[Problem]:
    with pytest.raises(SettingsError) as caught:
        select_zones(wanted, pools, system, OFFERING, SOURCE)
    assert str(caught.value).startswith(f"{SOURCE}: ")
    return caught.value.problems


def test_a_number_means_the_first_zones_by_name_that_offer_the_type() -> None:
    assert select_zones(2, [G5], SYSTEM, OFFERING, SOURCE) == ("us-west-2b", "us-west-2c")


def test_a_chosen_zone_offers_the_types_of_every_pool() -> None:
    assert select_zones(2, [G5, P4D], SYSTEM, OFFERING, SOURCE) == ("us-west-2b", "us-west-2c")
    assert select_zones(2, [P4D], SYSTEM, OFFERING, SOURCE) == ("us-west-2a", "us-west-2b")


def test_a_chosen_zone_offers_every_type_of_a_pool() -> None:
    both = PoolPlacement(("g5.xlarge", "p4d.24xlarge"), None)
    assert select_zones(2, [both], SYSTEM, OFFERING, SOURCE) == ("us-west-2b", "us-west-2c")


def test_a_chosen_zone_offers_the_system_groups_types() -> None:
    assert select_zones(2, [], ("m6i.large",), OFFERING, SOURCE) == ("us-west-2c", "us-west-2d")
    assert select_zones(2, [], SYSTEM, OFFERING, SOURCE) == ("us-west-2a", "us-west-2b")
    assert select_zones(4, [], SYSTEM, OFFERING, SOURCE) == tuple(sorted(ABCD))


def test_a_zone_that_this_account_cannot_use_is_not_chosen_though_the_type_is_offered_there() -> None:
    offering = Offering("us-west-2", frozenset({"us-west-2b", "us-west-2c"}), {"g5.xlarge": ABC})
    assert select_zones(2, [G5], (), offering, SOURCE) == ("us-west-2b", "us-west-2c")


def test_too_few_zones_say_where_each_type_is() -> None:
    assert _problems(3, G5, P4D) == [
        Problem(
            "network.zones",
            "3 zones are asked for, but in us-west-2 only 2 offer g5.xlarge, p4d.24xlarge, m7i.large: "
            "us-west-2b, us-west-2c; "
            "g5.xlarge is offered in us-west-2b, us-west-2c, us-west-2d; "
            "p4d.24xlarge is offered in us-west-2a, us-west-2b, us-west-2c; "
            "m7i.large is offered in us-west-2a, us-west-2b, us-west-2c, us-west-2d",
        )
    ]


def test_a_type_that_is_offered_nowhere_is_said_to_be_nowhere() -> None:
    assert _problems(2, PoolPlacement(("p5.48xlarge",), None), system=()) == [
        Problem(
            "network.zones",
            "2 zones are asked for, but in us-west-2 only 0 offer p5.48xlarge: no zone of this region; "
            "p5.48xlarge is offered in no zone of this region",
        )
    ]


def test_listed_zones_keep_their_order_because_it_decides_their_subnets() -> None:
    listed = ("us-west-2c", "us-west-2b")
    assert select_zones(listed, [G5], SYSTEM, OFFERING, SOURCE) == listed


def test_a_list_is_only_checked_and_never_completed() -> None:
    assert select_zones(["us-west-2b"], [G5], SYSTEM, OFFERING, SOURCE) == ("us-west-2b",)


def test_a_listed_zone_that_lacks_types_says_which_and_where_they_are() -> None:
    assert _problems(("us-west-2a", "us-west-2b", "us-west-2d"), G5, P4D) == [
        Problem(
            "network.zones[0]",
            "us-west-2a does not offer g5.xlarge; g5.xlarge is offered in us-west-2b, us-west-2c, us-west-2d",
        ),
        Problem(
            "network.zones[2]",
            "us-west-2d does not offer p4d.24xlarge; p4d.24xlarge is offered in us-west-2a, us-west-2b, us-west-2c",
        ),
    ]


def test_a_listed_zone_without_the_system_groups_type_is_refused() -> None:
    assert _problems(("us-west-2b", "us-west-2c"), G5, system=("m6i.large",)) == [
        Problem("network.zones[0]", "us-west-2b does not offer m6i.large; m6i.large is offered in us-west-2c, us-west-2d")
    ]


def test_a_type_that_two_pools_lack_is_named_once() -> None:
    assert _problems(("us-west-2a",), G5, G5) == [
        Problem(
            "network.zones[0]",
            "us-west-2a does not offer g5.xlarge; g5.xlarge is offered in us-west-2b, us-west-2c, us-west-2d",
        )
    ]


def test_a_listed_zone_that_is_not_available_is_refused_even_where_the_type_is_offered() -> None:
    assert _problems(("us-west-2b", "us-west-2e"), G5) == [
        Problem(
            "network.zones[1]",
            "'us-west-2e' is not a zone of us-west-2 where this account can have EKS; "
            "use us-west-2a, us-west-2b, us-west-2c, us-west-2d",
        )
    ]


def test_a_confined_pool_does_not_ask_the_other_zones_for_its_types() -> None:
    confined = PoolPlacement(("g5.xlarge",), ("us-west-2b",))
    listed = ("us-west-2a", "us-west-2b")
    assert select_zones(listed, [confined, P4D], SYSTEM, OFFERING, SOURCE) == listed


def test_a_confined_pool_must_find_its_types_where_it_is_confined_to() -> None:
    confined = PoolPlacement(("g5.xlarge",), ("us-west-2a", "us-west-2b"))
    assert _problems(("us-west-2a", "us-west-2b"), P4D, confined) == [
        Problem(
            "gpu.pools[1].zones[0]",
            "us-west-2a does not offer g5.xlarge; g5.xlarge is offered in us-west-2b, us-west-2c, us-west-2d",
        )
    ]


def test_every_mistake_about_zones_is_said_at_once() -> None:
    confined = PoolPlacement(("p4d.24xlarge",), ("us-west-2d",))
    assert [problem.path for problem in _problems(("us-west-2a", "us-west-2x", "us-west-2d"), confined, G5)] == [
        "gpu.pools[0].zones[0]",
        "network.zones[0]",
        "network.zones[1]",
    ]


@pytest.fixture
def ec2(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Fake EC2's responses in us-east-1, and return the recorded arguments of the calls."""
    asked: list[dict[str, Any]] = []
    offered = [
        ("g5.xlarge", "us-east-1a"),
        ("m7i.large", "us-east-1b"),
        ("g5.xlarge", "us-east-1b"),
        ("g5.xlarge", "us-east-1e"),
    ]

    def availability_zones(**arguments: Any) -> SimpleNamespace:
        asked.append(arguments)
        return SimpleNamespace(
            names=["us-east-1a", "us-east-1b", "us-east-1e"], zone_ids=["use1-az2", "use1-az4", "use1-az3"]
        )

    def offerings(**arguments: Any) -> SimpleNamespace:
        asked.append(arguments)
        wanted = [offer for offer in offered if offer[0] in arguments["filters"][0]["values"]]
        return SimpleNamespace(instance_types=[name for name, _ in wanted], locations=[zone for _, zone in wanted])

    monkeypatch.setattr(zones.aws, "get_availability_zones", availability_zones)
    monkeypatch.setattr(zones.aws.ec2, "get_instance_type_offerings", offerings)
    return asked


def test_the_offering_lists_the_zones_of_each_type(ec2: list[dict[str, Any]]) -> None:
    read = read_offering("us-east-1", ["m7i.large", "g5.xlarge", "p5.48xlarge", "g5.xlarge"])
    assert read.by_type == {
        "g5.xlarge": {"us-east-1a", "us-east-1b", "us-east-1e"},
        "m7i.large": {"us-east-1b"},
        "p5.48xlarge": set(),
    }
    assert ec2[1] == {
        "location_type": "availability-zone",
        "filters": [{"name": "instance-type", "values": ["g5.xlarge", "m7i.large", "p5.48xlarge"]}],
    }


def test_zones_in_which_eks_has_no_control_plane_do_not_count_as_available(ec2: list[dict[str, Any]]) -> None:
    assert read_offering("us-east-1", ["g5.xlarge"]).available == {"us-east-1a", "us-east-1b"}


def test_local_zones_are_not_asked_for(ec2: list[dict[str, Any]]) -> None:
    read_offering("us-east-1", ["g5.xlarge"])
    assert ec2[0] == {
        "state": "available",
        "filters": [{"name": "opt-in-status", "values": ["opt-in-not-required"]}],
    }


def test_the_control_plane_of_a_stack_in_one_zone_has_a_second_one() -> None:
    assert control_plane_zones(("us-west-2b",), OFFERING, SOURCE) == ("us-west-2b", "us-west-2a")
    assert control_plane_zones(("us-west-2b", "us-west-2c"), OFFERING, SOURCE) == ("us-west-2b", "us-west-2c")
    alone = Offering("us-west-2", frozenset({"us-west-2b"}), {})
    with pytest.raises(SettingsError) as caught:
        control_plane_zones(("us-west-2b",), alone, SOURCE)
    assert [str(problem) for problem in caught.value.problems] == [
        "network.zones: EKS asks for two zones, and us-west-2 has no other than us-west-2b; use another region"
    ]
