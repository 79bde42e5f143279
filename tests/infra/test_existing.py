"""Functions of the AWS provider that find nothing, or too much: only that is no error."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from infra.aws import existing

_FAILED = "invoke of aws:ec2/getVpcEndpoint:getVpcEndpoint failed: invocation of aws:ec2/getVpcEndpoint returned an error:"


def asked(monkeypatch: pytest.MonkeyPatch, says: str | None) -> bool:
    """Ask for the endpoint of STS where the provider says this; None: where there is one."""

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


def test_what_could_not_be_asked_is_not_taken_for_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Exception, match="UnauthorizedOperation"):
        asked(monkeypatch, "reading EC2 VPC Endpoint: UnauthorizedOperation: You are not authorized")


def test_the_target_of_a_route_is_whichever_it_has() -> None:
    keys = ("nat_gateway_id", "transit_gateway_id", "gateway_id", "network_interface_id", "instance_id")
    keys += ("vpc_peering_connection_id", "core_network_arn", "local_gateway_id", "carrier_gateway_id")
    empty = dict.fromkeys(keys, "")
    assert [existing._target(SimpleNamespace(**{**empty, key: key})) for key in keys] == list(keys)
    assert existing._target(SimpleNamespace(**empty)) is None
