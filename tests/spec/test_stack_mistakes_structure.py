"""Mistakes in the structure of a stack file: unknown and missing keys, wrong types, nonexistent choices."""

from typing import Any

import pytest

from spec.settings.model import Document
from tests.spec.stack_config import REMOVED, complaints

_KEYS = [field.alias or name for name, field in Document.model_fields.items()]
SECTIONS = ", ".join(key if ":" in key else f"triton-eks:{key}" for key in _KEYS)

MISTAKES: list[tuple[dict[str, Any], list[str]]] = [
    (
        {"netwrok": {}},
        [(f"triton-eks:netwrok: unknown key; did you mean 'triton-eks:network'? the keys here are {SECTIONS}")],
    ),
    (
        {"gpus": {}, "tritn": {}},
        [
            f"triton-eks:gpus: unknown key; did you mean 'triton-eks:gpu'? the keys here are {SECTIONS}",
            f"triton-eks:tritn: unknown key; did you mean 'triton-eks:triton'? the keys here are {SECTIONS}",
        ],
    ),
    ({"triton-ek:cost": {}}, [f"triton-ek:cost: unknown key; did you mean 'triton-eks:cost'? the keys here are {SECTIONS}"]),
    ({"aws:regoin": "x"}, [f"aws:regoin: unknown key; did you mean 'aws:region'? the keys here are {SECTIONS}"]),
    ({"unheard": {}}, [f"triton-eks:unheard: unknown key; the keys here are {SECTIONS}"]),
    (
        {"network.zonse": 2},
        [
            (
                "network.zonse: unknown key; did you mean 'zones'? the keys here are cidr, zones, "
                "nat, endpoints, flowLogRetentionDays, existing"
            )
        ],
    ),
    (
        {"gpu.pools[0].desird": 1},
        [
            (
                "gpu.pools[0].desird: unknown key; did you mean 'desired'? the keys here are name, "
                "instanceTypes, capacity, min, desired, max, diskGiB, zones, sharing, reservationId, "
                "imagePull, modelCacheGiB"
            )
        ],
    ),
    (
        {"aws:profile": "x"},
        [(f"aws:profile: unknown key; the keys here are {SECTIONS}")],
    ),
    ({"gpu.pools[0].min": "3"}, ["gpu.pools[0].min: '3' is text; give a whole number without quotes"]),
    ({"gpu.pools[0].max": 2.5}, ["gpu.pools[0].max: 2.5 is a fraction; give a whole number"]),
    ({"gpu.pools[0].min": True}, ["gpu.pools[0].min: true is a truth value; give a whole number"]),
    ({"triton.gpus": 0.5}, ["triton.gpus: 0.5 is a fraction; give a whole number"]),
    ({"triton.gpus": "1"}, ["triton.gpus: '1' is text; give a whole number without quotes"]),
    ({"cluster.deletionProtection": "yes"}, ["cluster.deletionProtection: 'yes' is text; give true or false"]),
    ({"network": "10.0.0.0/16"}, ["network: '10.0.0.0/16' is text; give a mapping of keys to values"]),
    ({"gpu.pools": {}}, ["gpu.pools: it is a mapping; give a list in square brackets"]),
    ({"gpu.pools": []}, ["gpu.pools: is empty; give at least one"]),
    ({"gpu.pools[2]": "g6"}, ["gpu.pools[2]: 'g6' is text; give a mapping of keys to values"]),
    ({"triton": REMOVED}, ["triton: is missing; add the section: the inference server"]),
    (
        {"network.cidr": REMOVED},
        [
            "network.cidr: is missing; give the address range of the VPC, /16 to /20, or to /24 for two zones, like "
            "10.40.0.0/16"
        ],
    ),
    ({"aws:region": REMOVED}, ["aws:region: is missing; give the AWS region, like us-west-2"]),
    ({"network": None}, ["network: it is empty; give a mapping of keys to values"]),
    (
        {"network.nat": "per-az"},
        [("network.nat: 'per-az' is not a choice; did you mean 'per_az'? use none, single or per_az")],
    ),
    (
        {"gpu.pools[0].capacity": "ondemand"},
        [
            (
                "gpu.pools[0].capacity: 'ondemand' is not a choice; did you mean 'on-demand'? use "
                "on-demand, spot, reservation or capacity-block"
            )
        ],
    ),
    ({"triton.autoscaler": "vpa"}, ["triton.autoscaler: 'vpa' is not a choice; did you mean 'hpa'? use none, keda or hpa"]),
    (
        {"environment": "stagign"},
        [("environment: 'stagign' is not a choice; did you mean 'staging'? use local, dev, staging or prod")],
    ),
    (
        {"environment": "dev"},
        [("environment: 'dev' is not what the name of the stack 'staging' says; use staging, or another name")],
    ),
]


@pytest.mark.parametrize(("changes", "expected"), MISTAKES, ids=[str(changes) for changes, _ in MISTAKES])
def test_a_mistake_is_said_where_it_is_and_with_what_is_valid(changes: dict[str, Any], expected: list[str]) -> None:
    assert complaints(changes) == expected
