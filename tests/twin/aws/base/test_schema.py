"""Checks without AWS: against the installed SDK's schema, and botocore's own models."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.twin.aws.world import BUCKET, CLUSTER, NODE_GROUP, ROUTE, SUBNET, VPC
from twin.aws import table
from twin.aws.base import schema, sdk_types, tags
from twin.aws.base.errors import InvalidInputs, UnsupportedType
from twin.aws.base.handler import UNKNOWN


def _problems(token: str, inputs: dict[str, object]) -> list[str]:
    with pytest.raises(InvalidInputs) as caught:
        table.handler(token).check(inputs, "auto-0000000")
    return [str(problem) for problem in caught.value.problems]


def test_all_problems_of_a_resource_come_together() -> None:
    assert _problems(SUBNET, {"cidrBlok": "10.0.0.0/24", "mapPublicIpOnLaunch": "yes", "tags": ["a"]}) == [
        "cidrBlok: unknown property; known: assignIpv6AddressOnCreation, availabilityZone, availabilityZoneId, cidrBlock, "
        "customerOwnedIpv4Pool, enableDns64, enableLniAtDeviceIndex, enableResourceNameDnsARecordOnLaunch, "
        "enableResourceNameDnsAaaaRecordOnLaunch, ipv4IpamPoolId, ipv4NetmaskLength, ipv6CidrBlock, ipv6IpamPoolId, "
        "ipv6Native, ipv6NetmaskLength, mapCustomerOwnedIpOnLaunch, mapPublicIpOnLaunch, outpostArn, "
        "privateDnsHostnameTypeOnLaunch, region, tags, vpcId",
        "mapPublicIpOnLaunch: 'yes' where true or false is expected",
        "tags: a list where an object is expected",
        "vpcId: required property is missing",
    ]


def test_nested_objects_are_checked_with_their_path() -> None:
    scaling = {"minSize": 1, "desiredSize": "two", "maximumSize": 3}
    problems = _problems(NODE_GROUP, {"clusterName": "c", "nodeRoleArn": "r", "subnetIds": [1], "scalingConfig": scaling})
    assert problems == [
        "subnetIds[0]: 1 where a string is expected",
        "scalingConfig.desiredSize: 'two' where a whole number is expected",
        "scalingConfig.maximumSize: unknown property; known: desiredSize, maxSize, minSize",
        "scalingConfig.maxSize: required property is missing",
    ]


def test_an_input_that_the_handler_would_ignore_is_refused() -> None:
    assert _problems(VPC, {"cidrBlock": "10.0.0.0/16", "ipv4IpamPoolId": "pool"}) == [
        f"ipv4IpamPoolId: the twin does not implement this input of {VPC}: extend twin/aws/ec2/network.py"
    ]


def test_an_unknown_type_names_the_file_to_extend() -> None:
    with pytest.raises(UnsupportedType) as caught:
        table.handler("aws:sns/topic:Topic")
    assert str(caught.value) == (
        "the twin has no handler for resource type aws:sns/topic:Topic: write a row in twin/aws/rows.py"
    )
    with pytest.raises(UnsupportedType) as caught:
        table.invoke("aws:ec2/getAmi:getAmi")
    assert str(caught.value) == (
        "the twin has no implementation of function aws:ec2/getAmi:getAmi: write one in twin/aws/invokes.py"
    )


def test_a_type_is_read_from_the_sdk_once_on_a_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for function in (sdk_types.resource_type, sdk_types._directory):
        monkeypatch.setattr(sdk_types, function.__name__, function.__wrapped__)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = sdk_types.resource_type(NODE_GROUP)
    assert found["objects"]["NodeGroupScalingConfigArgs"] == {
        "properties": {"desiredSize": ["int"], "maxSize": ["int"], "minSize": ["int"]},
        "required": ["desiredSize", "maxSize", "minSize"],
    }
    monkeypatch.setattr(sdk_types, "read", None)
    assert sdk_types.resource_type(NODE_GROUP) == found


@pytest.mark.parametrize("token", [NODE_GROUP, "aws:iam/role:Role"])
def test_what_is_kept_of_a_type_is_what_the_sdk_has(token: str) -> None:
    assert sdk_types.resource_type(token) == sdk_types.read(token)


def test_a_type_that_the_sdk_has_not_is_told() -> None:
    with pytest.raises(UnsupportedType, match=r"^aws:ec2/vpcs:Vpcs is not a type of the installed pulumi-aws$"):
        sdk_types.resource_type("aws:ec2/vpcs:Vpcs")


def test_unknown_values_pass_wherever_they_stand() -> None:
    inputs = {
        "roleArn": UNKNOWN,
        "version": UNKNOWN,
        "vpcConfig": {"subnetIds": [UNKNOWN, UNKNOWN], "publicAccessCidrs": UNKNOWN},
        "tags": {"a": UNKNOWN},
    }
    assert table.handler(CLUSTER).check(inputs, "cluster-0000000") == {**inputs, "name": "cluster-0000000"}
    route = {"routeTableId": UNKNOWN, "destinationCidrBlock": UNKNOWN, "natGatewayId": UNKNOWN}
    assert table.handler(ROUTE).check(route) == route


def test_a_name_that_is_given_is_kept() -> None:
    assert table.handler(BUCKET).check({"bucket": "mine"}, "other-0000000") == {"bucket": "mine"}
    assert table.handler(BUCKET).check({}, "Models-0000000") == {"bucket": "models-0000000"}


def test_default_tags_lie_below_a_resources_own() -> None:
    handler = table.handler(VPC)
    assert tags.merge_default_tags(handler, {"tags": {"a": "own"}}, {"a": "default", "b": "default"}) == {
        "tags": {"a": "own", "b": "default"}
    }
    assert tags.merge_default_tags(table.handler(ROUTE), {"routeTableId": "r"}, {"a": "default"}) == {"routeTableId": "r"}


@pytest.mark.parametrize("token", sorted(table.HANDLERS))
def test_handlers_speak_the_sdks_language(token: str) -> None:
    """If a key is missing in the installed SDK, an upgrade has renamed it."""
    handler = table.HANDLERS[token]
    assert handler.inputs <= schema.input_names(token)
    assert handler.computed | handler.defaults.keys() <= schema.output_names(token) | {"id"}
    assert {path.partition(".")[0] for path in handler.replace_on | handler.unordered} <= handler.inputs
    assert handler.partly_computed <= handler.inputs
    assert handler.name_input is None or handler.name_input in handler.inputs
    if handler.taggable:
        assert "tagsAll" in schema.output_names(token)
