"""Mistakes about the GPU pools of a stack file."""

from typing import Any

import pytest

from tests.spec.stack_config import complaints, settings
from tests.spec.test_stack_mistakes_autoscaling import KARPENTER

MISTAKES: list[tuple[dict[str, Any], list[str]]] = [
    (
        {
            "gpu.pools[1].instanceTypes": ["p4d.24xlarge", "p4d.24xlarge"],
            "gpu.pools[1].capacity": "reservation",
            "gpu.pools[1].reservationId": "cr-0123456789abcdef0",
            "gpu.pools[1].zones": ["us-west-2a", "us-west-2b"],
        },
        [
            "gpu.pools[1].instanceTypes[1]: 'p4d.24xlarge' is listed twice; list each type once",
            "gpu.pools[1].instanceTypes: a reservation is for one instance type, here are 2; give that one",
            "gpu.pools[1].zones: a reservation is in one zone; give exactly that zone",
        ],
    ),
    ({"gpu.pools[0].min": 5}, ["gpu.pools[0].min: 5 is more than max 4; give min <= desired <= max"]),
    ({"gpu.pools[0].desired": 9}, ["gpu.pools[0].desired: 9 is more than max 4; give 1 to 4"]),
    (
        {"gpu.pools[0].desired": 0, "triton.pool": "p4d", "gpu.pools[1].desired": 1},
        ["gpu.pools[0].desired: 0 is less than min 1; give 1 to 4"],
    ),
    ({"gpu.pools[0].max": 0}, ["gpu.pools[0].max: 0 is out of range; use 1 to 450 nodes"]),
    ({"gpu.pools[0].max": 1000}, ["gpu.pools[0].max: 1000 is out of range; use 1 to 450 nodes"]),
    ({"gpu.pools[1].name": "g5"}, ["gpu.pools[1].name: 'g5' is the name of another pool; give each its own"]),
    (
        {"gpu.pools[1].name": "system"},
        ["gpu.pools[1].name: 'system' is the name of the system nodes; use another"],
    ),
    (
        {"gpu.pools[1].name": "P4 pool"},
        [
            (
                "gpu.pools[1].name: 'P4 pool' cannot be part of a resource name; use up to 30 "
                "lower-case letters, digits and hyphens, a letter first"
            )
        ],
    ),
    (
        {"gpu.pools[0].instanceTypes": ["m7i.large"]},
        [
            (
                "gpu.pools[0].instanceTypes[0]: 'm7i.large' has no GPU; use a type of g4dn, g5, g6, g6e, gr6, "
                "p4d, p4de, p5, p5e, p5en or p6-b200"
            )
        ],
    ),
    (
        {"gpu.pools[0].instanceTypes": ["p3.2xlarge"]},
        [
            (
                "gpu.pools[0].instanceTypes[0]: 'p3.2xlarge' cannot be used: its V100 has compute "
                "capability 7.0 and Triton needs compute capability 7.5 or more since 24.11; use a "
                "type of g4dn, g5, g6, g6e, gr6, p4d, p4de, p5, p5e, p5en or p6-b200"
            )
        ],
    ),
    (
        {"gpu.pools[0].instanceTypes": ["p2.xlarge"]},
        [
            (
                "gpu.pools[0].instanceTypes[0]: 'p2.xlarge' cannot be used: its K80 has compute "
                "capability 3.7 and Triton needs compute capability 7.5 or more since 24.11; use a "
                "type of g4dn, g5, g6, g6e, gr6, p4d, p4de, p5, p5e, p5en or p6-b200"
            )
        ],
    ),
    (
        {"gpu.pools[0].instanceTypes": ["g3.4xlarge"]},
        [
            (
                "gpu.pools[0].instanceTypes[0]: 'g3.4xlarge' cannot be used: its M60 has compute "
                "capability 5.2 and Triton needs compute capability 7.5 or more since 24.11; use a "
                "type of g4dn, g5, g6, g6e, gr6, p4d, p4de, p5, p5e, p5en or p6-b200"
            )
        ],
    ),
    (
        {"gpu.pools[0].instanceTypes": ["g5.xlrage"]},
        [
            (
                "gpu.pools[0].instanceTypes[0]: unknown instance type 'g5.xlrage'; did you mean "
                "'g5.xlarge'? use one of g5.xlarge, g5.2xlarge, g5.4xlarge, g5.8xlarge, g5.12xlarge, "
                "g5.16xlarge, g5.24xlarge, g5.48xlarge, or describe it in instanceTypes"
            )
        ],
    ),
    (
        {"gpu.pools[0].instanceTypes": ["h100.big"]},
        [
            "gpu.pools[0].instanceTypes[0]: unknown instance type 'h100.big'; use a type of g4dn, g5, g6, "
            "g6e, gr6, p4d, p4de, "
            "p5, p5e, p5en or p6-b200, or describe it in instanceTypes"
        ],
    ),
    (
        {"gpu.pools[0].instanceTypes": ["g5.xlarge", "g4dn.xlarge"]},
        [
            (
                "gpu.pools[0].instanceTypes: g5.xlarge has 1 x A10G 22 GiB and g4dn.xlarge 1 x T4 16 "
                "GiB; give types with the same GPUs, or make two pools"
            )
        ],
    ),
    (
        {"gpu.pools[0].instanceTypes": ["g5.xlarge", "g5.12xlarge"]},
        [
            (
                "gpu.pools[0].instanceTypes: g5.xlarge has 1 x A10G 22 GiB and g5.12xlarge 4 x A10G "
                "22 GiB; give types with the same GPUs, or make two pools"
            )
        ],
    ),
    (
        {"gpu.pools[0].instanceTypes": ["g5.xlarge", "g5.xlarge"]},
        ["gpu.pools[0].instanceTypes[1]: 'g5.xlarge' is listed twice; list each type once"],
    ),
    ({"gpu.pools[0].instanceTypes": []}, ["gpu.pools[0].instanceTypes: is empty; give at least one"]),
    (
        {"gpu.pools[0].instanceTypes": "g5.xlarge"},
        ["gpu.pools[0].instanceTypes: 'g5.xlarge' is text; give a list in square brackets"],
    ),
    (
        {"aws:region": "us-west-1", "network.zones": 2},
        [
            ("gpu.pools[0].instanceTypes[0]: EC2 has no g5 in us-west-1; that region has g4dn, p5 or p5en"),
            ("gpu.pools[1].instanceTypes[0]: EC2 has no p4d in us-west-1; that region has g4dn, p5 or p5en"),
        ],
    ),
    (
        {"gpu.pools[0].capacity": "reservation"},
        [
            (
                "gpu.pools[0].reservationId: is missing; capacity 'reservation' needs the id of the "
                "reservation, like cr-0123456789abcdef0"
            ),
            "gpu.pools[0].zones: a reservation is in one zone; give exactly that zone",
        ],
    ),
    (
        {"gpu.pools[0].reservationId": "cr-0123456789abcdef0"},
        [
            (
                "gpu.pools[0].reservationId: capacity 'on-demand' uses no reservation; remove it, or "
                "use capacity: reservation or capacity-block"
            )
        ],
    ),
    (
        {"gpu.pools[0].capacity": "reservation", "gpu.pools[0].reservationId": "r-1", "gpu.pools[0].zones": ["us-west-2a"]},
        [
            (
                "gpu.pools[0].reservationId: 'r-1' is not the id of a capacity reservation; give the "
                "id of a capacity reservation, like cr-0123456789abcdef0"
            )
        ],
    ),
    (
        {
            "gpu.pools[0].capacity": "capacity-block",
            "gpu.pools[0].reservationId": "cr-0123456789abcdef0",
            "gpu.pools[0].zones": ["us-west-2a"],
        },
        [
            (
                "gpu.pools[0].capacity: there are no capacity blocks of g5; use p4d, p4de, p5, p5e, p5en or "
                "p6-b200, or another capacity"
            )
        ],
    ),
    (
        {"gpu.pools[0].zones": ["us-west-2d"]},
        [("gpu.pools[0].zones[0]: 'us-west-2d' is not a zone of the network; use us-west-2a, us-west-2b or us-west-2c")],
    ),
    (
        {"gpu.pools[0].zones": ["us-west-2a", "us-west-2a"]},
        ["gpu.pools[0].zones[1]: 'us-west-2a' is listed twice; list each zone once"],
    ),
    (
        {"network.zones": 3, "gpu.pools[0].zones": ["us-west-2a"]},
        [
            (
                "gpu.pools[0].zones[0]: 'us-west-2a' may not be among the 3 zones that network.zones "
                "chooses; list the zones by name in network.zones"
            )
        ],
    ),
    (
        {"gpu.pools[0].imagePull": "fast"},
        ["gpu.pools[0].imagePull: 'fast' is not a choice; use standard or soci"],
    ),
    (
        {"gpu.pools[0].sharing": "time-slicing"},
        [
            (
                "gpu.pools[0].sharing: 'time-slicing' is text; use exclusive, {strategy: time-slicing, replicas: 4} "
                "(or mps), or {strategy: mig, profile: 1g.10gb, replicas: 7}"
            )
        ],
    ),
    (
        {"gpu.pools[0].sharing": {"strategy": "mps", "replicas": 1}},
        ["gpu.pools[0].sharing.replicas: 1 is no sharing; use 2 to 48, or sharing: exclusive"],
    ),
    (
        {"gpu.pools[0].sharing": {"strategy": "mps", "replicas": 100}},
        ["gpu.pools[0].sharing.replicas: 100 is out of range; use 1 to 48 pods per GPU"],
    ),
    (
        {"gpu.pools[0].sharing": {"strategy": "mig", "profile": "1g.5gb", "replicas": 7}},
        [
            "gpu.pools[0].sharing.strategy: spec/catalog.py has no MIG profile of the A10G of g5.xlarge; "
            "use a type of p4d, p4de or p5, or mps"
        ],
    ),
    (
        {"gpu.pools[1].sharing": {"strategy": "mig", "replicas": 7}},
        ["gpu.pools[1].sharing.profile: is missing; for an A100 with 40 GB use 1g.5gb, 2g.10gb or 3g.20gb"],
    ),
    (
        {"gpu.pools[1].sharing": {"strategy": "mig", "profile": "1g.10gb", "replicas": 7}},
        [
            "gpu.pools[1].sharing.profile: '1g.10gb' is no way to cut this GPU; "
            "for an A100 with 40 GB use 1g.5gb, 2g.10gb or 3g.20gb"
        ],
    ),
    (
        {"gpu.pools[1].sharing": {"strategy": "mig", "profile": "2g.10gb", "replicas": 4}},
        ["gpu.pools[1].sharing.replicas: 4 is not the number of 2g.10gb instances of an A100; use 3"],
    ),
    (
        {"gpu.pools[1].sharing": {"strategy": "mps", "profile": "2g.10gb", "replicas": 4}},
        ["gpu.pools[1].sharing.profile: mps has none; remove it, or use strategy: mig"],
    ),
    (
        {"gpu.pools[0].sharing": {"strategy": "exclusive", "replicas": 2}},
        ["gpu.pools[0].sharing.replicas: 2 pods cannot share an exclusive GPU; use 1"],
    ),
    (
        {"gpu.pools[0].diskGiB": 50},
        [
            (
                "gpu.pools[0].diskGiB: 50 is out of range; use 100 to 16384 GiB (the Triton image "
                "alone unpacks to more than 20)"
            )
        ],
    ),
]


@pytest.mark.parametrize(("changes", "expected"), MISTAKES, ids=[str(changes) for changes, _ in MISTAKES])
def test_a_mistake_is_said_where_it_is_and_with_what_is_valid(changes: dict[str, Any], expected: list[str]) -> None:
    assert complaints(changes) == expected


RESERVED = {"capacity": "reservation", "reservationId": "cr-0123456789abcdef0", "zones": ["us-west-2a"]}


@pytest.mark.parametrize(
    ("pool", "more"),
    [
        ({}, "g5.2xlarge and g5.4xlarge"),
        ({"instanceTypes": ["g5.2xlarge"], "capacity": "spot"}, "g5.4xlarge and g5.8xlarge"),
        ({"instanceTypes": ["g5.12xlarge"]}, "g5.24xlarge"),
        ({"instanceTypes": ["g5.xlarge", "g5.2xlarge"]}, None),
        ({"instanceTypes": ["g5.16xlarge"]}, None),
        (RESERVED, None),
    ],
    ids=["on-demand", "spot", "four GPUs", "two sizes", "the largest with one GPU", "reserved"],
)
def test_a_pool_of_one_type_that_an_autoscaler_grows_is_a_warning(pool: dict[str, Any], more: str | None) -> None:
    def warned(changes: dict[str, Any]) -> list[str]:
        given = {**changes, **{f"gpu.pools[0].{key}": value for key, value in pool.items()}}
        return [str(found) for found in settings(given).warnings if found.path.startswith("gpu.")]

    only = pool.get("instanceTypes", ["g5.xlarge"])[0]
    assert warned(KARPENTER) == (
        [
            f"gpu.pools[0].instanceTypes: pods wait while EC2 has no {only}; add {more} after it, which have the same GPUs, "
            "so that EC2 can start another size"
        ]
        if more
        else []
    )
    assert warned({"nodes.autoscaler": "none"}) == []
