"""Lists that exceed AWS's limits."""

import json
from typing import Any

import pytest

from spec.settings.relations.limits import MOST_READER_ACCOUNTS, MOST_REPLY_CHARACTERS
from tests.spec.stack_config import complaints, settings
from tests.spec.test_stack_mistakes_access import gateway
from tests.spec.test_stack_mistakes_relations import WORKER

RUNNER = {
    "repository": "example/platform",
    "connectionArn": "arn:aws:codeconnections:us-west-2:123456789012:connection/01234567-89ab-cdef-0123-456789abcdef",
    "actors": [583231],
}


def accounts(count: int) -> list[str]:
    return [str(210_000_000_000 + number) for number in range(count)]


def queues(count: int) -> list[str]:
    return [f"arn:aws:sqs:us-west-2:123456789012:answers-{number:03}" for number in range(count)]


def ranges(count: int) -> list[str]:
    return [f"10.{number // 256}.{number % 256}.0/24" for number in range(count)]


def groups(count: int) -> list[str]:
    return [f"sg-{number:017x}" for number in range(count)]


def test_the_bucket_has_a_policy_for_so_many_accounts() -> None:
    settings({"models.readerAccounts": accounts(MOST_READER_ACCOUNTS)})
    (told,) = complaints({"models.readerAccounts": accounts(MOST_READER_ACCOUNTS + 1)})
    assert told.startswith("models.readerAccounts: has 201 accounts, and the bucket's policy has room for 200; list fewer")
    longest = [f"arn:aws-us-gov:iam::{account}:root" for account in accounts(MOST_READER_ACCOUNTS)]
    assert 2 * len(json.dumps(longest)) < 20 * 1024 - 3 * 1024  # both statements, plus the rest of the policy


def test_the_role_of_workers_has_a_policy_for_so_many_queues() -> None:
    fitting = MOST_REPLY_CHARACTERS // (len(queues(1)[0]) + 3)
    settings({"worker": {**WORKER, "replyQueueArns": queues(fitting)}})
    (told,) = complaints({"worker": {**WORKER, "replyQueueArns": queues(fitting + 1)}})
    assert told.startswith(f"worker.replyQueueArns: {fitting + 1} queues take 70")


@pytest.mark.parametrize(
    ("changes", "path", "rules"),
    [
        ({"cluster.apiAccess": {"cidrs": ranges(31), "securityGroups": groups(30)}}, "cluster.apiAccess", 61),
        ({"cluster.apiAccess": {"cidrs": ranges(60), "runner": RUNNER}}, "cluster.apiAccess", 61),
        (gateway(allowedCidrs=ranges(31)), "gateway.allowedCidrs", 62),
    ],
)
def test_more_rules_than_a_security_group_has_are_warned_of(changes: dict[str, Any], path: str, rules: int) -> None:
    (warning,) = [found for found in settings(changes).warnings if found.path == path]
    assert f" are {rules} rules of a security group, which has 60 unless AWS has raised the quota" in warning.message


@pytest.mark.parametrize(
    "changes", [{"cluster.apiAccess": {"cidrs": ranges(60)}}, gateway(allowedCidrs=ranges(30))], ids=["api", "gateway"]
)
def test_as_many_as_it_has_are_taken_without_a_word(changes: dict[str, Any]) -> None:
    assert not [found for found in settings(changes).warnings if "rules of a security group" in found.message]


def test_more_than_any_quota_are_refused() -> None:
    (told,) = complaints({"cluster.apiAccess": {"cidrs": ranges(1001)}})
    assert told.startswith(
        "cluster.apiAccess: its ranges, groups and runner are 1001 rules of a security group, which never has more"
    )
    (told,) = complaints(gateway(allowedCidrs=ranges(501)))
    assert told.startswith("gateway.allowedCidrs: its ranges, for each of two ports, are 1002 rules of a security group")
