"""Mistakes in the section `worker`, and their messages."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from tests.spec.stack_config import ECR, complaints, settings

DIGEST = "sha256:" + "fedcba9876543210" * 4
KEDA: dict[str, Any] = {
    "image": f"{ECR}/triton-worker@{DIGEST}",
    "autoscaler": "keda",
    "maxReplicas": 10,
    "cpu": "250m",
    "memoryMiB": 512,
    "longestRequestSeconds": 60,
    "oldMessageMinutes": 15,
    "resultDays": 30,
}
BY_HAND = {**{key: value for key, value in KEDA.items() if key != "maxReplicas"}, "autoscaler": "none", "replicas": 2}
TOPIC = "arn:aws:sns:us-west-2:123456789012:oncall"
BY_DIGEST = "give <mirror>/triton-worker@sha256:<64 hex digits> (`crane digest` prints it)"


def test_a_stack_without_workers_has_none() -> None:
    assert settings().worker is None


@pytest.mark.parametrize("section", [KEDA, BY_HAND, {**KEDA, "alarmTopicArn": TOPIC}])
def test_workers_are_accepted(section: dict[str, Any]) -> None:
    worker = settings({"worker": section}).worker
    assert worker is not None
    assert worker.concurrency is None


@pytest.mark.parametrize(
    ("section", "owner"),
    [
        (KEDA, "keda"),
        ({**KEDA, "autoscaler": None}, "keda"),
        (BY_HAND, "none"),
        ({**BY_HAND, "autoscaler": None}, "none"),
    ],
)
def test_keda_owns_the_workers_where_there_are_bounds(section: dict[str, Any], owner: str) -> None:
    worker = settings({"worker": section}).worker
    assert worker is not None and worker.pod_autoscaler == owner


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"image": f"{ECR}/triton-worker:1.0"},
            f"worker.image: '{ECR}/triton-worker:1.0' is not an image of the worker by its digest: its path has to end in "
            f"/triton-worker; {BY_DIGEST}",
        ),
        (
            {"image": f"{ECR}/worker@{DIGEST}"},
            f"worker.image: '{ECR}/worker@{DIGEST}' is not an image of the worker by its digest: its path has to end in "
            f"/triton-worker; {BY_DIGEST}",
        ),
        (
            {"image": f"{ECR}/triton-worker@sha256:{'0' * 64}"},
            f"worker.image: 'sha256:000000000000...' is a placeholder; {BY_DIGEST}",
        ),
        (
            {"replicas": 2},
            "worker.replicas: KEDA owns the number of pods; remove it, and give minReplicas and maxReplicas",
        ),
        ({"maxReplicas": None}, "worker.maxReplicas: is missing; give the most pods that KEDA may start, like 10"),
        ({"minReplicas": 11}, "worker.minReplicas: 11 is more than maxReplicas 10; give 0 to 10"),
        (
            {"oldMessageMinutes": 5760},
            "worker.oldMessageMinutes: SQS removes a message after 4 days, so that nobody would be told; give less than "
            "5760",
        ),
        (
            {"alarmTopicArn": "arn:aws:sns:eu-west-1:123456789012:oncall"},
            "worker.alarmTopicArn: it is in eu-west-1 and the stack in us-west-2; give one of the same region",
        ),
        (
            {"replyQueueArns": ["arn:aws:sqs:us-west-2:123456789012:answers.fifo"]},
            "worker.replyQueueArns[0]: 'arn:aws:sqs:us-west-2:123456789012:answers.fifo' is not the ARN of an SQS queue "
            "that is not FIFO; give the ARN of an SQS queue, like arn:aws:sqs:us-west-2:123456789012:answers",
        ),
        (
            {"memoryMiB": 473, "concurrency": 32},
            "worker.memoryMiB: 473 MiB do not hold 32 requests at a time and 16 MiB of their objects; give 474, or fewer "
            "requests (worker.concurrency)",
        ),
    ],
)
def test_a_mistake_is_said_in_one_sentence(changes: dict[str, Any], said: str) -> None:
    section = {key: value for key, value in {**KEDA, **changes}.items() if value is not None}
    assert complaints({"worker": section}) == [said]


def test_the_example_digest_is_warned_about_outside_the_local_stack() -> None:
    digest = hashlib.sha256(b"triton-worker").hexdigest()
    section = {**KEDA, "image": f"{ECR}/triton-worker@sha256:{digest}", "alarmTopicArn": TOPIC}
    assert [problem.path for problem in settings({"worker": section}).warnings] == ["worker.image"]
    assert settings({"environment": "local", "worker": section}, "local").warnings == ()


def test_without_an_autoscaler_the_number_is_given_once() -> None:
    section = {**{key: value for key, value in BY_HAND.items() if key != "replicas"}, "maxReplicas": 3, "minReplicas": 1}
    assert complaints({"worker": section}) == [
        "worker.replicas: is missing; nobody else sets the number of pods while autoscaler is none",
        "worker.minReplicas: is of autoscaler keda and autoscaler is none; remove it, or use autoscaler: keda",
        "worker.maxReplicas: is of autoscaler keda and autoscaler is none; remove it, or use autoscaler: keda",
    ]


def test_alarms_that_reach_nobody_are_worth_a_warning() -> None:
    assert [str(warning) for warning in settings({"worker": KEDA}).warnings] == [
        "worker.alarmTopicArn: is not given, so that its alarms are seen only by who looks; give the ARN of an SNS topic"
    ]
    assert settings({"worker": {**KEDA, "alarmTopicArn": TOPIC}}).warnings == ()
    assert settings({"environment": "local", "worker": KEDA}, "local").warnings == ()
