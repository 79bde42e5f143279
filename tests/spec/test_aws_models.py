"""Names and tags that settings refuse, compared with botocore's models of AWS's services."""

import re
import string
from typing import Any

import botocore.session
import pytest

from spec.catalog import REGIONS, partition_of
from spec.settings.fields import MOST_TAGS
from tests.spec.stack_config import DIGEST, complaints, settings

_SESSION = botocore.session.get_session()
TAGGED = ("acm", "ce", "elbv2", "fsx", "iam", "logs")
"""Services whose models restrict the characters of tags; the stack's tags reach each of them."""


def _raw(service: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = _SESSION.get_component("data_loader").load_service_model(service, "service-2")["shapes"][name]
    return found


def _pattern(service: str, name: str) -> re.Pattern[str]:
    """Return a shape's pattern for Python, which lacks Unicode classes."""
    text = str(_raw(service, name)["pattern"])
    return re.compile(text.replace(r"\p{L}", r"\w").replace(r"\p{N}", r"\d").replace(r"\p{Z}", " "))


@pytest.mark.parametrize("service", TAGGED)
def test_a_character_of_a_tag_is_taken_where_every_service_takes_it(service: str) -> None:
    names = {"ce": "ResourceTagValue", "iam": "tagValueType"}
    allowed = _pattern(service, names.get(service, "TagValue"))
    for character in string.printable.strip() + "é":
        value = f"a{character}b"
        if allowed.fullmatch(value):
            assert settings({"tags.owner": value}).tags["owner"] == value
        else:
            assert len(complaints({"tags.owner": value})) == 1


def test_tags_leave_room_for_those_of_others_among_the_fifty_that_aws_takes() -> None:
    assert {_raw("iam", "tagListType")["max"], _raw("logs", "Tags")["max"], _raw("acm", "TagList")["max"]} == {50}
    assert MOST_TAGS == 50 - 10
    tags = {"owner": "a", "cost-center": "b", **{f"key-{number}": "c" for number in range(MOST_TAGS - 2)}}
    assert len(settings({"tags": tags}).tags) == MOST_TAGS


def test_role_names_are_as_long_as_iam_takes_them() -> None:
    assert (_raw("iam", "roleNameType")["max"], _raw("iam", "roleNameType")["pattern"]) == (64, r"[\w+=,.@-]+")


def test_china_has_no_managed_prometheus_and_every_other_region_has() -> None:
    for partition in ("aws", "aws-us-gov", "aws-cn"):
        there = set(_SESSION.get_available_regions("amp", partition_name=partition))
        assert there >= {region for region, of in REGIONS.items() if of == partition != "aws-cn"}
        assert not there or partition != "aws-cn"
    beijing = {
        "aws:region": "cn-north-1",
        "network.zones": 2,
        "cluster.adminRoleArns": ["arn:aws-cn:iam::123456789012:role/admin"],
        "triton.image": f"123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn/tritonserver@{DIGEST}",
        "monitoring": {
            "runbooks": "https://wiki.example.com",
            "replicas": 1,
            "retentionDays": 7,
            "storageGiB": 30,
            "amp": {"workspaceId": "ws-01234567-89ab-cdef-0123-456789abcdef"},
        },
    }
    assert complaints(beijing) == [
        "monitoring.amp: AWS has no Amazon Managed Service for Prometheus in cn-north-1; remove it"
    ]


def test_china_has_no_connections_to_github_and_govcloud_has() -> None:
    there = {
        partition: bool(_SESSION.get_available_regions("codestar-connections", partition))
        for partition in ("aws", "aws-us-gov", "aws-cn")
    }
    assert there == {"aws": True, "aws-us-gov": True, "aws-cn": False}
    connection = "arn:aws-cn:codeconnections:cn-north-1:123456789012:connection/01234567-89ab-cdef-0123-456789abcdef"
    beijing = {
        "aws:region": "cn-north-1",
        "network.zones": 2,
        "cluster.adminRoleArns": ["arn:aws-cn:iam::123456789012:role/admin"],
        "cluster.apiAccess": {"runner": {"repository": "example/platform", "connectionArn": connection, "actors": [583231]}},
        "triton.image": f"123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn/tritonserver@{DIGEST}",
    }
    assert complaints(beijing) == [
        "cluster.apiAccess.runner: AWS has no connections to GitHub in cn-north-1; use a runner of your own"
    ]


def test_govcloud_has_no_budgets_and_china_has() -> None:
    there = {
        partition: [
            bool(_SESSION.get_available_regions(service, partition, allow_non_regional=True))
            for service in ("budgets", "ce")
        ]
        for partition in ("aws", "aws-us-gov", "aws-cn")
    }
    assert there == {"aws": [True, True], "aws-us-gov": [False, False], "aws-cn": [True, True]}
    govcloud = {
        "aws:region": "us-gov-west-1",
        "network.zones": 2,
        "cluster.adminRoleArns": ["arn:aws-us-gov:iam::123456789012:role/admin"],
        "triton.image": f"123456789012.dkr.ecr.us-gov-west-1.amazonaws.com/tritonserver@{DIGEST}",
        "cost": {"monthlyUsd": 100, "emails": ["a@example.com"]},
    }
    assert complaints(govcloud) == [
        "cost: AWS has neither Budgets nor Cost Explorer in us-gov-west-1; remove it, and make the budget in the account "
        "that is billed for this one"
    ]


@pytest.mark.parametrize("partition", ["aws", "aws-us-gov", "aws-cn"])
def test_the_regions_are_those_that_have_eks(partition: str) -> None:
    assert {region for region, of in REGIONS.items() if of == partition} == set(
        _SESSION.get_available_regions("eks", partition_name=partition)
    )
    assert all(partition_of(region) == of for region, of in REGIONS.items())
