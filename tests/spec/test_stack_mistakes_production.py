"""The invariants of prod, which other stacks may relax."""

from typing import Any

import pytest

from tests.spec.stack_config import DIGEST, complaints, settings

MISTAKES: list[tuple[dict[str, Any], list[str]]] = [
    (
        {"cluster.endpoint": "public", "cluster.publicAccessCidrs": ["198.51.100.0/24"]},
        [("cluster.endpoint: prod invariant 'private endpoint': the API is on the internet; use private")],
    ),
    (
        {"network.zones": 3},
        [
            (
                "network.zones: prod invariant 'listed zones': which 3 are meant changes with what AWS offers, and then "
                "subnets are replaced; list them by name"
            )
        ],
    ),
    (
        {"network.nat": "single"},
        [("network.nat: prod invariant 'NAT per zone': 'single' lets one zone's failure cut off the others; use per_az")],
    ),
    (
        {"permissionsBoundary": False},
        [("permissionsBoundary: prod invariant 'permissions boundary': roles have no upper limit; remove the key")],
    ),
    (
        {"cluster.deletionProtection": False},
        [("cluster.deletionProtection: prod invariant 'deletion protection': the cluster can be deleted; use true")],
    ),
    (
        {"cluster.logRetentionDays": 90},
        [("cluster.logRetentionDays: prod invariant 'a year of audit logs': 90 days are kept; use 365 or more")],
    ),
    (
        {"triton.replicas": 1},
        [("triton.replicas: prod invariant 'two replicas': 1 pod is an outage at every restart; use 2 or more")],
    ),
    (
        {"triton.image": f"nvcr.io/nvidia/tritonserver@{DIGEST}"},
        [
            (
                "triton.image: prod invariant 'images of one's own': no node starts while NVIDIA's registry is down; run "
                "`python3 -m stackctl image 26.07 --stack prod --mirror`, which copies it to ECR"
            )
        ],
    ),
    (
        {"nodes.system.min": 1},
        [("nodes.system.min: prod invariant 'two system nodes': 1 node holds all of DNS; use 2 or more")],
    ),
    (
        {"gpu.pools[0].zones": ["us-west-2a"]},
        [
            (
                "gpu.pools[0].zones: prod invariant 'two zones': Triton's pool 'g5' is in one zone; "
                "give two or more, or none for all zones of the network"
            )
        ],
    ),
]


@pytest.mark.parametrize(("changes", "expected"), MISTAKES, ids=[str(changes) for changes, _ in MISTAKES])
def test_a_mistake_is_said_where_it_is_and_with_what_is_valid(changes: dict[str, Any], expected: list[str]) -> None:
    assert complaints(changes, stack="prod") == expected


@pytest.mark.parametrize("changes", [changes for changes, _ in MISTAKES], ids=[str(changes) for changes, _ in MISTAKES])
def test_staging_may_do_what_prod_may_not(changes: dict[str, Any]) -> None:
    settings(changes)  # raises if it is refused


def test_a_misspelt_environment_does_not_switch_the_invariants_off() -> None:
    assert complaints({"environment": "prd", "network.nat": "single"}, stack="prod") == [
        "environment: 'prd' is not a choice; did you mean 'prod'? use local, dev, staging or prod",
        "network.nat: prod invariant 'NAT per zone': 'single' lets one zone's failure cut off the others; use per_az",
    ]
