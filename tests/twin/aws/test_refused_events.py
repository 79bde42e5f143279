"""Mistakes in EventBridge rules and targets that AWS refuses, or takes and then delivers nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.twin.aws.refusals import Refusal, check, ids
from tests.twin.aws.world import KEY, World, policy
from twin.aws.base.clients import Clients
from twin.aws.base.errors import HandlerError

QUEUE = "aws:sqs/queue:Queue"
POLICY = "aws:sqs/queuePolicy:QueuePolicy"
RULE = "aws:cloudwatch/eventRule:EventRule"
TARGET = "aws:cloudwatch/eventTarget:EventTarget"
PATTERN = json.dumps({"source": ["aws.ec2"]})


@pytest.fixture(scope="module")
def world(clients: Clients) -> Iterator[World]:
    world = World(clients)
    world.make(QUEUE, "closed", name="closed")
    world.make(QUEUE, "open", name="open")
    world.make(POLICY, "policy", queueUrl=world.id("open"), policy=_lets_in(world.arn("open")))
    world.make(QUEUE, "others", name="others")
    theirs = {"ArnLike": {"aws:SourceArn": "arn:aws:events:us-west-2:123456789012:rule/theirs-*"}}
    world.make(POLICY, "of-others", queueUrl=world.id("others"), policy=_lets_in(world.arn("others"), Condition=theirs))
    world.make(KEY, "key")
    world.make(QUEUE, "locked", name="locked", kmsMasterKeyId=world.arn("key"))
    world.make(POLICY, "of-locked", queueUrl=world.id("locked"), policy=_lets_in(world.arn("locked")))
    world.make(RULE, "rule", name="rule", eventPattern=PATTERN, tags={"owner": "me"})
    yield world


def _lets_in(arn: str, **more: Any) -> str:
    principal = {"Service": "events.amazonaws.com"}
    return policy(Effect="Allow", Principal=principal, Action="sqs:SendMessage", Resource=arn, **more)


def _target(world: World, **changes: Any) -> dict[str, Any]:
    inputs = {"rule": "rule", "targetId": "t", "arn": world.arn("open"), **changes}
    return {key: value for key, value in inputs.items() if value is not None}


REFUSALS = [
    Refusal("a rule that exists", RULE, lambda w: {"name": "rule", "eventPattern": PATTERN}, "rule rule already exists"),
    Refusal(
        "a rule for nothing",
        RULE,
        lambda w: {},
        f"{RULE}: eventPattern: required: the twin has rules for events and none for a schedule",
    ),
    Refusal(
        "a pattern with a bare value",
        RULE,
        lambda w: {"eventPattern": json.dumps({"source": "aws.ec2"})},
        f"{RULE}: eventPattern.source: 'aws.ec2'; a list of values, or a mapping, is expected",
    ),
    Refusal("a target of no rule", TARGET, lambda w: _target(w, rule="none"), "target t: rule none does not exist"),
    Refusal(
        "a target without an id",
        TARGET,
        lambda w: _target(w, targetId=None),
        f"{TARGET}: targetId: required: the twin makes up no ids of targets",
    ),
    Refusal(
        "a target that is not there",
        TARGET,
        lambda w: _target(w, arn=f"{w.arn('open')}s"),
        "rule rule: arn:aws:sqs:us-west-2:123456789012:opens is not a queue of this account and region, "
        "the only target that the twin has",
    ),
    Refusal(
        "a queue that EventBridge may not write to",
        TARGET,
        lambda w: _target(w, arn=w.arn("closed")),
        "rule rule: the policy of queue arn:aws:sqs:us-west-2:123456789012:closed does not let events.amazonaws.com send "
        "for arn:aws:events:us-west-2:123456789012:rule/rule, so that nothing would arrive",
    ),
    Refusal(
        "a queue that EventBridge may write to for other rules",
        TARGET,
        lambda w: _target(w, arn=w.arn("others")),
        "rule rule: the policy of queue arn:aws:sqs:us-west-2:123456789012:others does not let events.amazonaws.com send "
        "for arn:aws:events:us-west-2:123456789012:rule/rule, so that nothing would arrive",
    ),
    Refusal(
        "a queue with a key that EventBridge may not use",
        TARGET,
        lambda w: _target(w, arn=w.arn("locked")),
        "rule rule: the policy of the key of queue arn:aws:sqs:us-west-2:123456789012:locked does not let "
        "events.amazonaws.com encrypt (kms:GenerateDataKey and kms:Decrypt), so that nothing would arrive",
    ),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=ids(REFUSALS))
def test_refused(world: World, refusal: Refusal) -> None:
    check(world, refusal)


def test_a_rule_and_its_target_are_read_changed_and_deleted_in_their_order(world: World) -> None:
    world.make(RULE, "spot", name="spot", eventPattern=PATTERN, description="spot", tags={"owner": "me"})
    world.make(TARGET, "target", **_target(world, rule="spot"))
    assert world.read("spot") == world.made["spot"].outputs
    assert world.read("target") == world.made["target"].outputs

    changed = json.dumps({"source": ["aws.health"]})
    world.update("spot", eventPattern=changed, description=None, tags={"owner": "you"})
    seen = world.read("spot")
    assert seen is not None
    assert (seen["eventPattern"], seen["tags"]) == (changed, {"owner": "you"})

    with pytest.raises(HandlerError, match="rule spot: it has targets: t"):
        world.delete("spot")
    world.delete("target")
    world.delete("target")
    assert world.read("target") is None
    world.delete("spot")
    world.delete("spot")
    assert world.read("spot") is None
