"""A stack in an existing VPC and in an existing cluster: up with the real engine, one inference, and destroy."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from tests.system.component import existing_account
from tests.system.component.existing_account import Vpc
from tests.system.e2e import account
from tests.system.e2e.conftest import Twin
from tests.system.e2e.test_up import ANSWER
from twin.aws import moto_server
from twin.aws.base.clients import Clients
from twin.cluster import control_plane
from twin.host import claim

STACK = "local"
MADE_OF = {
    "network": ("cidr", "zones", "nat", "endpoints", "flowLogRetentionDays"),
    "cluster": ("endpoint", "deletionProtection", "logRetentionDays"),
}
"""The keys for a VPC and a cluster that the stack creates: refused next to `existing`."""
NETWORK_TYPES = (
    "aws:ec2/internetGateway:InternetGateway",
    "aws:ec2/natGateway:NatGateway",
    "aws:ec2/subnet:Subnet",
    "aws:ec2/vpc:Vpc",
)
CLUSTER_TYPES = ("aws:eks/addon:Addon", "aws:eks/cluster:Cluster", "eks:index:Cluster")


def somebody_elses(twin: Twin, *, cluster: bool) -> tuple[Clients, Vpc]:
    """Start the twin's AWS before its first `up`, with a VPC and, if `cluster` is set, a cluster in it."""
    claim.claim(twin.home.path)
    moto_server.ensure(twin.home, lambda _: None)
    clients = Clients(account.REGION, twin.home.load_endpoints().aws_url)
    vpc = existing_account.make_vpc(clients)
    if cluster:
        control_plane.announce(twin.home)  # so the cluster's endpoint is the twin's API server
        existing_account.make_cluster(clients, vpc)
    return clients, vpc


def name_them(twin: Twin, vpc: Vpc, *, cluster: bool) -> None:
    """Replace the stack's own network and cluster in the twin's stack file by these existing ones."""
    sections: dict[str, dict[str, Any]] = {"network": {"existing": vpc.section}}
    # The twin would create the roles that the tracked file names, and no destroy deletes them.
    twin.pin("triton-eks:cluster.adminRoleArns", None if cluster else [])
    twin.pin("triton-eks:cluster.rolloutRoleArns", None)
    if cluster:
        sections["cluster"] = {"existing": {"name": existing_account.CLUSTER}}
    for section, keys in sections.items():
        for key, value in {**dict.fromkeys(MADE_OF[section]), **keys}.items():
            twin.pin(f"triton-eks:{section}.{key}", value)


def node_subnets(clients: Clients, cluster: str) -> set[str]:
    """Return the subnets of all node groups of a cluster, which must have at least one."""
    eks = clients("eks")
    groups = eks.list_nodegroups(clusterName=cluster)["nodegroups"]
    assert groups
    return {
        id
        for group in groups
        for id in eks.describe_nodegroup(clusterName=cluster, nodegroupName=group)["nodegroup"]["subnets"]
    }


@pytest.mark.parametrize("cluster", [False, True], ids=["vpc", "cluster"])
def test_what_was_there_is_as_it_was_after_a_stack_came_answered_and_went(own_twin: Twin, cluster: bool) -> None:
    clients, vpc = somebody_elses(own_twin, cluster=cluster)
    name_them(own_twin, vpc, cluster=cluster)
    url = clients.endpoint_url or ""
    before, held = existing_account.described(clients), account.leftovers(url)

    assert ANSWER.search(own_twin.up())

    made = json.loads(own_twin.run("status", "--json").stdout)["resources"]
    assert [kind for kind in NETWORK_TYPES if kind in made] == []
    assert [kind for kind in CLUSTER_TYPES if kind in made] == ([] if cluster else list(CLUSTER_TYPES))
    assert node_subnets(clients, existing_account.CLUSTER if cluster else f"triton-{STACK}") == set(vpc.private.values())
    assert existing_account.described(clients) != before

    gone = own_twin.shell(f"{sys.executable} -m stackctl destroy {STACK} --confirm {STACK}")

    assert gone.returncode == 0, gone.stdout + gone.stderr
    assert existing_account.described(clients) == before
    assert account.leftovers(url) == held
