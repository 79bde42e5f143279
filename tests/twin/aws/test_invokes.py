"""Functions of the aws provider that no program of this repository calls."""

from moto import mock_aws

from twin.aws import table
from twin.aws.base.clients import Clients


def test_the_region_of_the_provider_is_what_the_official_eks_cluster_asks_for() -> None:
    """`name` becomes part of the issuer's address: nodejs/eks/cluster/cluster.ts of pulumi-eks, createOidcProvider."""
    with mock_aws():
        region = table.invoke("aws:index/getRegion:getRegion")(Clients("eu-central-1"), {})
    assert region == {
        "id": "eu-central-1",
        "region": "eu-central-1",
        "name": "eu-central-1",
        "endpoint": "ec2.eu-central-1.amazonaws.com",
        "description": "Europe (Frankfurt)",
    }
