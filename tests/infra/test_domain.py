"""The load balancer's address in a Gateway's status."""

from __future__ import annotations

from typing import Any

import pytest

from infra.aws.domain import address


def test_it_is_the_first_address() -> None:
    status = {"addresses": [{"type": "Hostname", "value": "a.elb.amazonaws.com"}, {"value": "b"}]}
    assert address(status) == "a.elb.amazonaws.com"


@pytest.mark.parametrize("status", [None, {}, {"addresses": []}, {"addresses": None}], ids=str)
def test_a_gateway_without_one_is_told(status: dict[str, Any] | None) -> None:
    with pytest.raises(ValueError, match="the Gateway has no address, so that the domain cannot lead to it"):
        address(status)
