"""An existing VPC and cluster in a stack file, and mistakes about them."""

from typing import Any

import pytest

from spec.settings.section import Absent
from tests.spec.existing_config import IN_A_CLUSTER, IN_A_VPC, PRIVATE, PUBLIC, VPC
from tests.spec.stack_config import ADMIN, complaints, settings

EXISTING = "network.existing"
_ONE = {"us-west-2a": PRIVATE["us-west-2a"]}
_VPC_STAYS = "the VPC is there already, and this program does not change it; remove the key, or `existing` to have one made"
_CLUSTER_STAYS = _VPC_STAYS.replace("the VPC", "the cluster")
MISTAKES: list[tuple[dict[str, Any], list[str]]] = [
    (
        {
            **IN_A_VPC,
            f"{EXISTING}.privateSubnetIds": {**PRIVATE, "us-west-2b": PRIVATE["us-west-2a"]},
            f"{EXISTING}.publicSubnetIds": {**PUBLIC, "us-west-2c": PRIVATE["us-west-2c"]},
        },
        [
            f"{EXISTING}.privateSubnetIds.us-west-2b: subnet-0123456789abcdea0 is said to be in us-west-2a too, and a "
            "subnet is in one zone; give another",
            f"{EXISTING}.publicSubnetIds.us-west-2c: subnet-0123456789abcdec0 is one of privateSubnetIds, and its routes "
            "lead to the internet or do not; give another",
        ],
    ),
    (
        {
            "network.existing": {"vpcId": VPC, "privateSubnetIds": PRIVATE},
        },
        [f"network.{key}: {_VPC_STAYS}" for key in ("cidr", "zones", "nat", "endpoints", "flowLogRetentionDays")],
    ),
    (
        {**IN_A_VPC, "cluster.existing": {"name": "shared"}},
        [
            f"cluster.{key}: {_CLUSTER_STAYS}"
            for key in ("endpoint", "apiAccess", "adminRoleArns", "deletionProtection", "logRetentionDays")
        ],
    ),
    (
        # No access settings for an endpoint that the program does not own.
        {**IN_A_CLUSTER, "cluster.endpoint": "public"},
        [f"cluster.endpoint: {_CLUSTER_STAYS}"],
    ),
    (
        {"network": {"existing": None}},
        [
            "network.cidr: is missing; give the address range of the VPC, /16 to /20, or to /24 for two zones, like "
            "10.40.0.0/16",
            "network.zones: is missing; give how many availability zones nodes are in (1 to 4, 1 in local and dev only), or "
            "a list of their names",
            "network.nat: is missing; give NAT gateways: none, single or per_az",
            "network.endpoints: is missing; give interface endpoints: none, minimal or full",
            "network.flowLogRetentionDays: is missing; give days that VPC flow logs are kept, like 90",
        ],
    ),
    (
        {"network": {"existing": {}}},
        [
            f"{EXISTING}.vpcId: is missing; give the VPC, like vpc-0123456789abcdef0",
            f"{EXISTING}.privateSubnetIds: is missing; give by zone, the subnets of nodes, pods, internal load "
            "balancers and the control plane's interfaces; their zones are the stack's",
        ],
    ),
    (
        {"network": {"existing": {"vpcId": "my-vpc", "privateSubnetIds": {"zone-1": "subnet-1", "us-west-2a": 7}}}},
        [
            f"{EXISTING}.vpcId: 'my-vpc' is not the id of a VPC; give the id of a VPC, like vpc-0123456789abcdef0",
            f"{EXISTING}.privateSubnetIds.zone-1: 'zone-1' is not the name of an availability zone; give one "
            "like us-west-2a",
            f"{EXISTING}.privateSubnetIds.zone-1: 'subnet-1' is not the id of a subnet; give the id of a subnet, like "
            "subnet-0123456789abcdef0",
            f"{EXISTING}.privateSubnetIds.us-west-2a: 7 is a number; give the id of a subnet, like subnet-0123456789abcdef0",
        ],
    ),
    (
        {"network": {"existing": {"vpcId": VPC, "privateSubnetIds": {}}}},
        [f"{EXISTING}.privateSubnetIds: is empty; give at least one"],
    ),
    (
        {**IN_A_VPC, "network.existing.publicSubnetIds": {"eu-west-1a": PUBLIC["us-west-2a"]}},
        [f"{EXISTING}.publicSubnetIds.eu-west-1a: 'eu-west-1a' is not a zone of us-west-2; give one like us-west-2a"],
    ),
    (
        {**IN_A_VPC, "network.existing.privateSubnetIds": _ONE},
        [
            f"{EXISTING}.privateSubnetIds: every outage of its one zone would be one of staging; use 2 to 4 zones",
            f"{EXISTING}.privateSubnetIds: EKS requires the control plane's subnets in two zones, and this is one; "
            "add another",
        ],
    ),
    (
        {**IN_A_VPC, "gpu.pools[0].zones": ["us-west-2d"]},
        ["gpu.pools[0].zones[0]: 'us-west-2d' is not a zone of the network; use us-west-2a, us-west-2b or us-west-2c"],
    ),
    (
        {"cluster": IN_A_CLUSTER["cluster"]},
        [
            "cluster.existing: nodes go into subnets of the cluster's VPC; give network.existing (its VPC and subnets: aws "
            "eks describe-cluster --name shared --query cluster.resourcesVpcConfig)"
        ],
    ),
    (
        {**IN_A_CLUSTER, "cluster.existing.name": "triton-staging"},
        [
            "cluster.existing.name: 'triton-staging' is the cluster that this stack makes itself, and takes away with all "
            "that has its name in a tag; name another one, or remove `existing`"
        ],
    ),
    (
        {**IN_A_CLUSTER, "cluster.existing.name": "-shared"},
        [
            "cluster.existing.name: '-shared' is not the name of an EKS cluster; give the name that `aws eks list-clusters` "
            "says"
        ],
    ),
    (
        {**IN_A_CLUSTER, "cluster.version": "1.20"},
        ['cluster.version: spec/versions.py has no add-ons and no AMI for 1.20; use "1.34", "1.35" or "1.36"'],
    ),
    (
        {
            **IN_A_VPC,
            "network.existing.publicSubnetIds": {"us-west-2a": PUBLIC["us-west-2a"]},
            "gateway": {
                "replicas": 2,
                "cpu": "500m",
                "memoryMiB": 512,
                "exposure": "public",
                "allowedCidrs": ["198.51.100.0/24"],
                "certificateArn": "arn:aws:acm:us-west-2:123456789012:certificate/01234567-89ab-cdef-0123-456789abcdef",
            },
        },
        [
            f"{EXISTING}.publicSubnetIds: a public gateway's load balancer sends only to zones that it is in, and there is "
            "no subnet for us-west-2b, us-west-2c; give one of each zone, or use gateway.exposure: internal"
        ],
    ),
]


@pytest.mark.parametrize(("changes", "told"), MISTAKES, ids=[next(iter(told)) for _, told in MISTAKES])
def test_a_mistake_is_told_with_what_would_be_right(changes: dict[str, Any], told: list[str]) -> None:
    assert complaints(changes) == told


def test_the_zones_of_a_vpc_that_is_there_are_those_of_its_private_subnets() -> None:
    network = settings(IN_A_VPC).network
    assert network.node_zones == ("us-west-2a", "us-west-2b", "us-west-2c")
    assert network.path_of_zone(1, "us-west-2b") == "network.existing.privateSubnetIds.us-west-2b"
    made = settings().network
    assert (made.node_zones, made.path_of_zone(1, "us-west-2b")) == (made.zones, "network.zones[1]")


def test_what_is_said_of_a_vpc_that_would_be_made_cannot_be_read_of_one_that_is_there() -> None:
    given = settings(IN_A_CLUSTER)
    with pytest.raises(Absent):
        _ = given.network.nat
    with pytest.raises(Absent):
        _ = given.cluster.endpoint
    assert settings().cluster.admin_role_arns == (ADMIN,)
