"""Replacements that cause other replacements, from the engine's events."""

from __future__ import annotations

from typing import Any

import pytest

from stackctl.review.preview import Replacement, roots
from tests.stackctl.review.scenarios import UNKNOWN


def replacement(urn: str, old: dict[str, Any], new: dict[str, Any], id_: str = "", **outputs: Any) -> Replacement:
    return Replacement(urn, id_, {"inputs": old, "outputs": {**old, **outputs}}, {"inputs": new}, list(new))


def test_a_chain_of_replacements_begins_with_the_one_whose_new_value_is_known() -> None:
    vpc = replacement("vpc", {"cidrBlock": "a"}, {"cidrBlock": "b"}, "vpc-1")
    subnet = replacement("subnet", {"vpcId": "vpc-1"}, {"vpcId": UNKNOWN}, "subnet-1")
    group = replacement("group", {"subnetIds": ["subnet-0", "subnet-1"]}, {"subnetIds": ["subnet-0", UNKNOWN]}, "group-1")
    assert roots([group, subnet, vpc]) == {"subnet": "vpc", "group": "vpc"}


def test_a_value_that_is_no_id_is_that_of_the_only_one_that_can_have_given_it() -> None:
    group = replacement("group", {"ami": "a"}, {"ami": "b"}, "group-1", scaling=[{"name": "asg-1"}])
    tag = replacement("tag", {"group": "asg-1"}, {"group": UNKNOWN}, "asg-1,label")
    assert roots([tag, group]) == {"tag": "group"}
    other = replacement("other", {"ami": "a"}, {"ami": "b"}, "other-1", seen="asg-1")
    assert roots([tag, group, other]) == {}


def test_a_new_value_that_is_known_has_no_cause_but_the_change_itself() -> None:
    vpc = replacement("vpc", {"cidrBlock": "a"}, {"cidrBlock": "b"}, "vpc-1")
    moved = replacement("subnet", {"vpcId": "vpc-1"}, {"vpcId": "vpc-2"}, "subnet-1")
    assert roots([vpc, moved]) == {}


def test_what_waits_for_something_that_is_not_replaced_is_a_cause_of_its_own() -> None:
    assert roots([replacement("subnet", {"vpcId": "vpc-1"}, {"vpcId": UNKNOWN}, "subnet-1")]) == {}


NAME, URL = "dev-models", "https://sqs.us-west-2.amazonaws.com/123456789012/dev-requests"
BUCKET = replacement("bucket", {"bucket": NAME}, {"bucket": "other-models"}, NAME, arn=f"arn:aws:s3:::{NAME}")
SETTINGS = [replacement(kind, {"bucket": NAME}, {"bucket": UNKNOWN}, NAME) for kind in ("policy", "versioning", "ownership")]
QUEUE = replacement("queue", {"name": "dev-requests"}, {"name": "other-requests"}, URL, url=URL)
POLICIES = [replacement(kind, {"queueUrl": URL}, {"queueUrl": UNKNOWN}, URL) for kind in ("policy", "redrive", "allow")]


@pytest.mark.parametrize(("cause", "followers"), [(BUCKET, SETTINGS), (QUEUE, POLICIES)], ids=["bucket", "queue"])
@pytest.mark.parametrize("order", [1, -1])
def test_what_has_the_id_of_another_one_as_its_own_is_not_the_cause(
    cause: Replacement, followers: list[Replacement], order: int
) -> None:
    assert roots([cause, *followers][::order]) == {one.urn: cause.urn for one in followers}


def test_an_id_that_two_may_have_given_is_nobodys() -> None:
    twins = [replacement(name, {"name": "a"}, {"name": "b"}, "dev") for name in ("one", "two")]
    third = replacement("third", {"zone": "a"}, {"zone": "b"}, "third", seen="dev")
    waiting = replacement("waiting", {"of": "dev"}, {"of": UNKNOWN}, "x")
    assert roots([*twins, waiting]) == {}
    assert roots([*twins, third, waiting]) == {}


def test_a_circle_ends() -> None:
    one = replacement("one", {"to": "id-2"}, {"to": UNKNOWN}, "id-1")
    two = replacement("two", {"to": "id-1"}, {"to": UNKNOWN}, "id-2")
    assert roots([one, two]) == {"two": "one"}
