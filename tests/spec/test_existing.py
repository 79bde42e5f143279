"""An existing VPC and cluster are checked by AWS's data about them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from ipaddress import IPv4Network
from typing import Any

import pytest
import yaml

from spec.existing import cluster, network
from spec.existing.cluster import ClusterFacts
from spec.existing.network import ENDPOINTS, SubnetFacts, VpcFacts
from tests.paths import ROOT
from tests.spec.existing_config import IN_A_CLUSTER, IN_A_VPC, PRIVATE, PUBLIC, VPC
from tests.spec.stack_config import settings

NAT, INTERNET = "nat-0123456789abcdef0", "igw-0123456789abcdef0"
PATH = "network.existing"
FIRST = PRIVATE["us-west-2a"]
OWN_TAGS = {"project": "triton-eks", "environment": "staging"}


def subnets(ids: Mapping[str, str], block: int, route: str | None) -> dict[str, SubnetFacts]:
    """Return facts of a /20 subnet in each zone."""
    return {
        id: SubnetFacts(id, VPC, zone, IPv4Network(f"10.{block}.{16 * number}.0/20"), {}, route)
        for number, (zone, id) in enumerate(ids.items())
    }


GOOD = VpcFacts(
    id=VPC,
    cidrs=(IPv4Network("10.60.0.0/16"), IPv4Network("10.61.0.0/16")),
    dns_support=True,
    dns_hostnames=True,
    tags={"project": "triton-eks", "environment": "prod"},
    subnets={**subnets(PRIVATE, 60, NAT), **subnets(PUBLIC, 61, INTERNET)},
)
SHARED = ClusterFacts(
    name="shared",
    arn="arn:aws:eks:us-west-2:123456789012:cluster/shared",
    version="1.35",
    status="ACTIVE",
    endpoint="https://example.eks.amazonaws.com",
    certificate_authority="",
    issuer="oidc.eks.us-west-2.amazonaws.com/id/EXAMPLE",
    authentication_mode="API",
    vpc_id=VPC,
    security_group_id="sg-0123456789abcdef0",
    oidc_provider_arn="arn:aws:iam::123456789012:oidc-provider/oidc.eks.us-west-2.amazonaws.com/id/EXAMPLE",
)


def first(**changes: Any) -> Callable[[VpcFacts], VpcFacts]:
    """Return a change of the first private subnet."""
    return lambda vpc: replace(vpc, subnets={**vpc.subnets, FIRST: replace(vpc.subnets[FIRST], **changes)})


def without(*services: str) -> Callable[[VpcFacts], VpcFacts]:
    """Return a change to a VPC whose first private subnet has no internet route, with all endpoints except these."""
    endpoints = frozenset(ENDPOINTS) - {*services}
    return lambda vpc: replace(first(default_route=None)(vpc), endpoints=endpoints)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda vpc: vpc, []),
        (without(), []),
        (first(default_route="tgw-0123456789abcdef0"), []),
        (lambda _: None, [f"{PATH}.vpcId: there is no {VPC} in us-west-2 that these credentials may see"]),
        (
            lambda vpc: replace(vpc, dns_support=False, dns_hostnames=False),
            [
                f"{PATH}.vpcId: {VPC} has {attribute} off, and nodes would not find the API server; aws ec2 "
                f"modify-vpc-attribute --vpc-id {VPC} {option}"
                for attribute, option in (
                    ("enableDnsSupport", "--enable-dns-support"),
                    ("enableDnsHostnames", "--enable-dns-hostnames"),
                )
            ],
        ),
        (
            lambda vpc: replace(first(tags={"kubernetes.io/cluster/triton-staging": "owned"})(vpc), tags=OWN_TAGS),
            [
                f"{PATH}.vpcId: {VPC} is tagged project=triton-eks, environment=staging, as what this stack makes and takes "
                "away again; remove the tag from it",
                f"{PATH}.privateSubnetIds.us-west-2a: {FIRST} is tagged kubernetes.io/cluster/triton-staging=owned, as what "
                "this stack makes and takes away again; remove the tag from it",
            ],
        ),
        (
            lambda vpc: replace(vpc, subnets={id: vpc.subnets[id] for id in vpc.subnets if id != FIRST}),
            [f"{PATH}.privateSubnetIds.us-west-2a: there is no {FIRST} that these credentials may see"],
        ),
        (
            first(vpc_id="vpc-fedcba98765432100"),
            [f"{PATH}.privateSubnetIds.us-west-2a: {FIRST} is in vpc-fedcba98765432100; give a subnet of {VPC}"],
        ),
        (
            first(zone="us-west-2d"),
            [
                f"{PATH}.privateSubnetIds.us-west-2a: {FIRST} is in us-west-2d; name it there, and a subnet of "
                "us-west-2a here",
            ],
        ),
        (
            first(default_route=INTERNET),
            [
                f"{PATH}.privateSubnetIds.us-west-2a: {FIRST} is public: its default route leads to {INTERNET}, over which "
                "nodes without a public address reach nothing; give a subnet whose default route leads to a NAT "
                "gateway or a transit gateway"
            ],
        ),
        (
            without("s3", "sts"),
            [
                f"{PATH}.privateSubnetIds.us-west-2a: {FIRST} has no default route, and {VPC} no endpoint for s3, sts: "
                "nodes could not join; give it a route to a NAT gateway or a transit gateway, or the VPC these endpoints"
            ],
        ),
        (
            first(cidr=IPv4Network("10.60.0.0/25")),
            [
                f"{PATH}.privateSubnetIds.us-west-2a: {FIRST} (10.60.0.0/25) has 123 addresses and the nodes need 162 "
                "at least (every node group at max, one block of 16 for the pods of each node); give a larger subnet "
                "or lower max"
            ],
        ),
        (
            lambda vpc: replace(
                vpc,
                subnets={
                    **vpc.subnets,
                    PUBLIC["us-west-2a"]: replace(vpc.subnets[PUBLIC["us-west-2a"]], default_route=NAT),
                },
            ),
            [
                f"{PATH}.publicSubnetIds.us-west-2a: {PUBLIC['us-west-2a']} has no default route to an internet gateway, so "
                "that nobody would reach a load balancer in it; give a public subnet"
            ],
        ),
    ],
)
def test_a_vpc_that_does_not_do_is_told_with_what_would(
    change: Callable[[VpcFacts], VpcFacts | None], told: list[str]
) -> None:
    given = settings({**IN_A_VPC, "network.existing.publicSubnetIds": PUBLIC})
    existing = given.network.existing
    assert existing is not None
    assert [str(problem) for problem in network.mistakes(given, existing, change(GOOD))] == told


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, []),
        ({"authentication_mode": "API_AND_CONFIG_MAP", "status": "UPDATING"}, []),
        (
            {"status": "DELETING", "oidc_provider_arn": None},
            ["cluster.existing.name: shared is DELETING; wait until it is ACTIVE, or name another one"],
        ),
        (
            {"version": "1.34"},
            [
                "cluster.version: shared runs Kubernetes 1.34, and nodes and charts would be those of 1.35; "
                'write "1.34", or upgrade the cluster'
            ],
        ),
        (
            {"authentication_mode": "CONFIG_MAP"},
            [
                "cluster.existing.name: shared knows no access entries (authentication mode CONFIG_MAP), by which nodes of "
                "this stack join; aws eks update-cluster-config --name shared --access-config "
                "authenticationMode=API_AND_CONFIG_MAP"
            ],
        ),
        (
            {"oidc_provider_arn": None},
            [
                "cluster.existing.name: IAM has no OIDC provider of shared, by which pods take their roles; aws iam "
                "create-open-id-connect-provider --url https://oidc.eks.us-west-2.amazonaws.com/id/EXAMPLE --client-id-list "
                "sts.amazonaws.com"
            ],
        ),
        (
            {"vpc_id": "vpc-fedcba98765432100"},
            [f"network.existing.vpcId: shared is in vpc-fedcba98765432100, not in {VPC}; give the cluster's VPC"],
        ),
    ],
)
def test_a_cluster_that_does_not_do_is_told_with_what_would(changes: dict[str, Any], told: list[str]) -> None:
    given = settings(IN_A_CLUSTER)
    existing = given.cluster.existing
    assert existing is not None
    assert [str(problem) for problem in cluster.mistakes(given, existing, replace(SHARED, **changes))] == told


def test_a_cluster_that_is_not_there_is_told_alone() -> None:
    given = settings(IN_A_CLUSTER)
    existing = given.cluster.existing
    assert existing is not None
    assert [str(problem) for problem in cluster.mistakes(given, existing, None)] == [
        "cluster.existing.name: there is no cluster shared in us-west-2; give one that `aws eks list-clusters` says"
    ]


@pytest.mark.parametrize("position", [0, 1], ids=["your VPC", "your cluster"])
def test_the_examples_of_the_page_are_valid(position: int) -> None:
    page = (ROOT / "docs" / "existing.md").read_text(encoding="utf-8")
    example = yaml.safe_load(re.findall(r"```yaml\n(.*?)```", page, flags=re.DOTALL)[position])
    given = settings({key.removeprefix("triton-eks:"): section for key, section in example.items()})
    assert given.network.existing is not None
    assert (given.cluster.existing is not None) == (position == 1)


def test_nodes_without_a_way_out_pull_triton_from_ecr() -> None:
    elsewhere = f"nvcr.io/nvidia/tritonserver@sha256:{'0123456789abcdef' * 4}"
    given = settings({**IN_A_VPC, "triton.image": elsewhere})
    existing = given.network.existing
    assert existing is not None
    assert network.mistakes(given, existing, GOOD) == []
    assert [str(problem) for problem in network.mistakes(given, existing, without()(GOOD))] == [
        "triton.image: 'nvcr.io/nvidia/tritonserver' cannot be reached from private subnets without a default route; mirror "
        "it to ECR in us-west-2 (<account>.dkr.ecr.us-west-2.amazonaws.com/...)"
    ]
