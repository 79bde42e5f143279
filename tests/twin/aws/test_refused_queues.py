"""Mistakes in queues, what is set on them, and alarms that AWS refuses."""

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
ALLOW = "aws:sqs/redriveAllowPolicy:RedriveAllowPolicy"
ALARM = "aws:cloudwatch/metricAlarm:MetricAlarm"


@pytest.fixture(scope="module")
def world(clients: Clients) -> Iterator[World]:
    world = World(clients)
    world.make(KEY, "key")
    dead = world.make(QUEUE, "dead", name="dead", kmsMasterKeyId=world.arn("key"), messageRetentionSeconds=1_209_600)
    world.make(QUEUE, "queue", name="queue", redrivePolicy=_redrive(world.arn("dead")), visibilityTimeoutSeconds=300)
    allowed = json.dumps({"redrivePermission": "byQueue", "sourceQueueArns": [world.arn("queue")]})
    world.make(ALLOW, "allow", queueUrl=dead.id, redriveAllowPolicy=allowed)
    world.make(POLICY, "policy", queueUrl=world.id("queue"), policy=_deny(world.arn("queue")))
    yield world


def _redrive(arn: str, count: Any = 5) -> str:
    return json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": count})


def _deny(resource: str) -> str:
    condition = {"Bool": {"aws:SecureTransport": "false"}}
    return policy(Effect="Deny", Principal="*", Action="sqs:*", Resource=resource, Condition=condition)


def _alarm(**changes: Any) -> dict[str, Any]:
    inputs = {
        "name": "old",
        "namespace": "AWS/SQS",
        "metricName": "ApproximateAgeOfOldestMessage",
        "dimensions": {"QueueName": "queue"},
        "statistic": "Maximum",
        "period": 60,
        "evaluationPeriods": 1,
        "comparisonOperator": "GreaterThanThreshold",
        "threshold": 900,
        **changes,
    }
    return {key: value for key, value in inputs.items() if value is not None}


REFUSALS = [
    Refusal(
        "a name with a dot",
        QUEUE,
        lambda w: {"name": "requests.fifo"},
        "aws:sqs/queue:Queue: name: 'requests.fifo': 1-80 letters, digits, hyphens and underscores "
        "(the twin has no FIFO queues)",
    ),
    Refusal("a queue that exists", QUEUE, lambda w: {"name": "queue"}, "queue queue already exists"),
    Refusal(
        "a visibility timeout of a day",
        QUEUE,
        lambda w: {"visibilityTimeoutSeconds": 86_400},
        "aws:sqs/queue:Queue: visibilityTimeoutSeconds: 86400 is not within 0-43200",
    ),
    Refusal(
        "a retention of a month",
        QUEUE,
        lambda w: {"messageRetentionSeconds": 2_592_000},
        "aws:sqs/queue:Queue: messageRetentionSeconds: 2592000 is not within 60-1209600",
    ),
    Refusal(
        "two encryptions",
        QUEUE,
        lambda w: {"kmsMasterKeyId": w.arn("key"), "sqsManagedSseEnabled": True},
        "aws:sqs/queue:Queue: sqsManagedSseEnabled: a queue is encrypted with its own key or with that of SQS, not with "
        "both",
    ),
    Refusal(
        "an unknown key",
        QUEUE,
        lambda w: {"name": "q", "kmsMasterKeyId": "00000000-0000-0000-0000-000000000000"},
        "queue q: KMS key 00000000-0000-0000-0000-000000000000 does not exist or is pending deletion",
    ),
    Refusal(
        "dead letters to nowhere",
        QUEUE,
        lambda w: {"name": "q", "redrivePolicy": _redrive("arn:aws:sqs:us-west-2:123456789012:nowhere")},
        "queue q: the dead-letter queue arn:aws:sqs:us-west-2:123456789012:nowhere does not exist",
    ),
    Refusal(
        "dead letters to a queue that does not let it",
        QUEUE,
        lambda w: {"name": "q", "redrivePolicy": _redrive(w.arn("dead"))},
        "queue q: the redrive allow policy of arn:aws:sqs:us-west-2:123456789012:dead does not let this queue use it",
    ),
    Refusal(
        "attempts as text",
        QUEUE,
        lambda w: {"redrivePolicy": _redrive(w.arn("dead"), "5")},
        "aws:sqs/queue:Queue: redrivePolicy.maxReceiveCount: '5' is not a whole number within 1-1000",
    ),
    Refusal(
        "a redrive policy without attempts",
        QUEUE,
        lambda w: {"redrivePolicy": json.dumps({"deadLetterTargetArn": w.arn("dead")})},
        "aws:sqs/queue:Queue: redrivePolicy: it has deadLetterTargetArn; use deadLetterTargetArn and maxReceiveCount",
    ),
    Refusal(
        "a policy of another queue",
        POLICY,
        lambda w: {"queueUrl": w.id("queue"), "policy": _deny(w.arn("dead"))},
        "policy of queue arn:aws:sqs:us-west-2:123456789012:queue: resource arn:aws:sqs:us-west-2:123456789012:dead is not "
        "this queue",
    ),
    Refusal(
        "a policy of no queue",
        POLICY,
        lambda w: {"queueUrl": "https://sqs.us-west-2.amazonaws.com/123456789012/nowhere", "policy": _deny("*")},
        "aws:sqs/queuePolicy:QueuePolicy: queue https://sqs.us-west-2.amazonaws.com/123456789012/nowhere does not exist",
    ),
    Refusal(
        "a policy for a role that does not exist",
        POLICY,
        lambda w: {
            "queueUrl": w.id("queue"),
            "policy": policy(
                Effect="Allow",
                Principal={"AWS": "arn:aws:iam::123456789012:role/nobody"},
                Action="sqs:SendMessage",
                Resource=w.arn("queue"),
            ),
        },
        "policy of queue arn:aws:sqs:us-west-2:123456789012:queue: principal arn:aws:iam::123456789012:role/nobody does not "
        "exist",
    ),
    Refusal(
        "a redrive permission that does not exist",
        ALLOW,
        lambda w: {"queueUrl": w.id("dead"), "redriveAllowPolicy": json.dumps({"redrivePermission": "all"})},
        "aws:sqs/redriveAllowPolicy:RedriveAllowPolicy: redriveAllowPolicy.redrivePermission: 'all' is not one of allowAll, "
        "byQueue, denyAll",
    ),
    Refusal(
        "sources by queue without any",
        ALLOW,
        lambda w: {"queueUrl": w.id("dead"), "redriveAllowPolicy": json.dumps({"redrivePermission": "byQueue"})},
        "aws:sqs/redriveAllowPolicy:RedriveAllowPolicy: redriveAllowPolicy.sourceQueueArns: is for byQueue alone, which "
        "wants one to ten of them",
    ),
    Refusal(
        "an alarm without a threshold",
        ALARM,
        lambda w: _alarm(threshold=None),
        "aws:cloudwatch/metricAlarm:MetricAlarm: threshold: required for an alarm on one metric, the only kind "
        "that the twin has",
    ),
    Refusal(
        "a comparison that does not exist",
        ALARM,
        lambda w: _alarm(comparisonOperator="GreaterThan"),
        "PutMetricAlarm: ComparisonOperator: 'GreaterThan' is not one of GreaterThanOrEqualToThreshold, "
        "GreaterThanThreshold, GreaterThanUpperThreshold, LessThanLowerOrGreaterThanUpperThreshold, LessThanLowerThreshold, "
        "LessThanOrEqualToThreshold, LessThanThreshold",
    ),
    Refusal(
        "missing data that means something else",
        ALARM,
        lambda w: _alarm(treatMissingData="ok"),
        "aws:cloudwatch/metricAlarm:MetricAlarm: treatMissingData: 'ok' is not one of breaching, ignore, missing, "
        "notBreaching",
    ),
    Refusal(
        "a period of 45 seconds",
        ALARM,
        lambda w: _alarm(period=45),
        "aws:cloudwatch/metricAlarm:MetricAlarm: period: 45 is not 10, 20, 30 or a multiple of 60 seconds",
    ),
    Refusal(
        "more than a day of minutes",
        ALARM,
        lambda w: _alarm(evaluationPeriods=1441),
        "aws:cloudwatch/metricAlarm:MetricAlarm: evaluationPeriods: 1441 periods of 60 s are more than 86400 s",
    ),
    Refusal(
        "an alarm to another region",
        ALARM,
        lambda w: _alarm(alarmActions=["arn:aws:sns:eu-west-1:123456789012:oncall"]),
        "alarm old: the SNS topic arn:aws:sns:eu-west-1:123456789012:oncall is in eu-west-1, and an alarm only tells topics "
        "of its own region",
    ),
    Refusal(
        "an alarm to nobody",
        ALARM,
        lambda w: _alarm(alarmActions=["arn:aws:sns:us-west-2:123456789012:oncall"]),
        "alarm old: the SNS topic arn:aws:sns:us-west-2:123456789012:oncall does not exist",
    ),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=ids(REFUSALS))
def test_it_is_refused_with_a_sentence(world: World, refusal: Refusal) -> None:
    check(world, refusal)


def test_a_queue_that_changes_keeps_its_policy(world: World) -> None:
    world.update("queue", visibilityTimeoutSeconds=600)
    assert world.read("policy") == world.made["policy"].outputs
    seen = world.read("queue")
    assert seen is not None
    assert (seen["visibilityTimeoutSeconds"], seen["redrivePolicy"]) == (600, _redrive(world.arn("dead")))
    world.update("queue", redrivePolicy=None)
    assert "redrivePolicy" not in (world.read("queue") or {})


def test_an_alarm_changed_by_hand_shows_in_a_refresh_and_goes(world: World) -> None:
    world.make(ALARM, "alarm", **_alarm(name="seen", tags={"owner": "me"}))
    assert world.read("alarm") == world.made["alarm"].outputs
    world.clients("cloudwatch").put_metric_alarm(
        AlarmName="seen",
        Namespace="AWS/SQS",
        MetricName="ApproximateAgeOfOldestMessage",
        Dimensions=[{"Name": "QueueName", "Value": "other"}],
        Statistic="Maximum",
        Period=60,
        EvaluationPeriods=1,
        ComparisonOperator="GreaterThanThreshold",
        Threshold=1,
    )
    seen = world.read("alarm")
    assert seen is not None
    assert (seen["threshold"], seen["dimensions"]) == (1, {"QueueName": "other"})
    with pytest.raises(HandlerError, match="alarm seen already exists"):
        world.make(ALARM, "again", **_alarm(name="seen"))
    world.delete("alarm")
    assert world.read("alarm") is None


def test_a_queue_that_is_gone_is_seen_as_gone(world: World) -> None:
    world.make(QUEUE, "short-lived", name="short-lived", tags={"owner": "me"})
    assert world.read("short-lived") == world.made["short-lived"].outputs
    world.delete("short-lived")
    world.delete("short-lived")
    assert world.read("short-lived") is None
