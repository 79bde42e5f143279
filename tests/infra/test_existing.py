"""Errors of the AWS provider's functions: if a function finds no resource or several, that is no error; all else is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from infra.aws import existing
from spec.settings.existing import ExistingNetwork

_FAILED = "invoke of aws:ec2/getVpcEndpoint:getVpcEndpoint failed: invocation of aws:ec2/getVpcEndpoint returned an error:"


def asked(monkeypatch: pytest.MonkeyPatch, says: str | None) -> bool:
    """Look for the STS endpoint while the provider raises this error; None: the provider finds an endpoint."""

    def get_vpc_endpoint(**arguments: Any) -> SimpleNamespace:
        assert arguments == {"vpc_id": "vpc-0", "service_name": "com.amazonaws.us-west-2.sts"}
        if says is not None:
            raise Exception(f"{_FAILED} {says}")
        return SimpleNamespace(id="vpce-0")

    monkeypatch.setattr(existing.aws.ec2, "get_vpc_endpoint", get_vpc_endpoint)
    return existing._has_endpoint("vpc-0", "com.amazonaws.us-west-2.sts")


@pytest.mark.parametrize(
    ("says", "there"),
    [
        (None, True),
        ("no matching EC2 VPC Endpoint found", False),
        (
            "multiple EC2 VPC Endpoints matched; use additional constraints to reduce matches to a single EC2 VPC Endpoint",
            True,
        ),
    ],
)
def test_an_endpoint_is_there_when_one_or_more_are(says: str | None, there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked(monkeypatch, says) is there


def test_endpoints_in_china_are_asked_for_by_their_names_there(monkeypatch: pytest.MonkeyPatch) -> None:
    asked_for: list[str] = []
    block = SimpleNamespace(cidr_block="10.0.0.0/16", state="associated")
    vpc = {"id": "vpc-0", "tags": {}, "enable_dns_support": True, "enable_dns_hostnames": True}
    subnet = {"vpc_id": "vpc-0", "availability_zone": "cn-north-1a", "cidr_block": "10.0.0.0/20", "tags": {}}
    answers = {
        "get_vpcs": SimpleNamespace(ids=["vpc-0"]),
        "get_vpc": SimpleNamespace(**vpc, cidr_block_associations=[block]),
        "get_subnets": SimpleNamespace(ids=["subnet-0"]),
        "get_subnet": SimpleNamespace(**subnet),
        "get_route_tables": SimpleNamespace(ids=[]),
    }
    for name, answer in answers.items():
        monkeypatch.setattr(existing.aws.ec2, name, lambda _answer=answer, **_: _answer)
    monkeypatch.setattr(existing, "_has_endpoint", lambda _vpc, name: asked_for.append(name))
    named = ExistingNetwork.model_construct(vpc_id="vpc-0", private_subnet_ids={"cn-north-1a": "subnet-0"})
    existing.read_vpc(named, "cn-north-1")
    assert asked_for[:2] == ["com.amazonaws.cn-north-1.s3", "cn.com.amazonaws.cn-north-1.ecr.api"]


def test_what_could_not_be_asked_is_not_taken_for_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Exception, match="UnauthorizedOperation"):
        asked(monkeypatch, "reading EC2 VPC Endpoint: UnauthorizedOperation: You are not authorized")


def test_the_target_of_a_route_is_whichever_it_has() -> None:
    keys = ("nat_gateway_id", "transit_gateway_id", "gateway_id", "network_interface_id", "instance_id")
    keys += ("vpc_peering_connection_id", "core_network_arn", "local_gateway_id", "carrier_gateway_id")
    empty = dict.fromkeys(keys, "")
    assert [existing._target(SimpleNamespace(**{**empty, key: key})) for key in keys] == list(keys)
    assert existing._target(SimpleNamespace(**empty)) is None


def test_the_route_table_of_a_gateway_is_no_subnets(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = {"main": (True, ""), "own": (False, "subnet-0"), "incoming": (False, "")}

    def get_route_table(route_table_id: str) -> SimpleNamespace:
        main, subnet_id = tables[route_table_id]
        return SimpleNamespace(
            routes=[SimpleNamespace(cidr_block="0.0.0.0/0", nat_gateway_id=route_table_id)],
            associations=[SimpleNamespace(main=main, subnet_id=subnet_id)],
        )

    monkeypatch.setattr(existing.aws.ec2, "get_route_tables", lambda **_: SimpleNamespace(ids=list(tables)))
    monkeypatch.setattr(existing.aws.ec2, "get_route_table", get_route_table)
    monkeypatch.setattr(existing, "_target", lambda route: route.nat_gateway_id)
    assert existing._default_routes("vpc-0") == {"": "main", "subnet-0": "own"}


def test_a_cluster_that_eks_still_makes_has_neither_address_nor_issuer(monkeypatch: pytest.MonkeyPatch) -> None:
    young = {"version": "1.35", "status": "CREATING", "endpoint": "", "arn": "arn:aws:eks:us-west-2:123456789012:cluster/x"}
    lists = {"identities": [], "certificate_authorities": [], "access_configs": []}
    vpc = SimpleNamespace(vpc_id="vpc-0", cluster_security_group_id="")
    monkeypatch.setattr(existing.aws.eks, "get_clusters", lambda: SimpleNamespace(names=["x"]))
    monkeypatch.setattr(existing.aws.eks, "get_cluster", lambda name: SimpleNamespace(**young, **lists, vpc_config=vpc))
    monkeypatch.setattr(existing.aws.iam, "get_open_id_connect_provider", lambda arn: pytest.fail(arn))
    found = existing.read_cluster("x")
    assert found is not None
    assert (found.is_up, found.issuer, found.certificate_authority, found.oidc_provider_arn) == (False, "", "", None)
