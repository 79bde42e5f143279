"""The workers: an image that is known and fixed, one owner of their number, and times that fit the queue."""

import hashlib
from collections.abc import Iterator

from spec.settings.checks import images
from spec.settings.checks.subject import Check, Subject
from spec.settings.problem import Problem

_EXAMPLE_DIGEST = "sha256:" + hashlib.sha256(b"triton-worker").hexdigest()
"""What the shipped stack files have in place of the digest of your mirror; no image has it."""


def _image_is_pinned(subject: Subject) -> Iterator[Problem]:
    worker = subject.document.worker
    if worker is not None:
        yield from images.of_ours("worker.image", worker.image, "triton-worker", "the worker")


def _one_owner_of_the_replicas(subject: Subject) -> Iterator[Problem]:
    worker = subject.document.worker
    if worker is None:
        return
    if worker.autoscaler == "none":
        if worker.replicas is None:
            yield Problem("worker.replicas", "is missing; nobody else sets the number of pods while scaler is none")
        for key, value in (
            ("minReplicas", worker.min_replicas),
            ("maxReplicas", worker.max_replicas),
            ("messagesPerReplica", worker.messages_per_replica),
        ):
            if value is not None:
                yield Problem(f"worker.{key}", "is of scaler keda and scaler is none; remove it, or use scaler: keda")
        return
    if worker.replicas is not None:
        yield Problem("worker.replicas", "KEDA owns the number of pods; remove it, and give minReplicas and maxReplicas")
    if worker.max_replicas is None:
        yield Problem("worker.maxReplicas", "is missing; give the most pods that KEDA may start, like 10")
    elif worker.min_replicas is not None and worker.min_replicas > worker.max_replicas:
        yield Problem(
            "worker.minReplicas",
            f"{worker.min_replicas} is more than maxReplicas {worker.max_replicas}; give 0 to {worker.max_replicas}",
        )


def _alarm_comes_before_the_loss(subject: Subject) -> Iterator[Problem]:
    worker = subject.document.worker
    if worker is not None and worker.old_message_minutes >= worker.retention_days * 24 * 60:
        yield Problem(
            "worker.oldMessageMinutes",
            f"SQS removes a message after {worker.retention_days} days, so that nobody would be told; "
            f"give less than {worker.retention_days * 24 * 60}",
        )


def _identities_are_of_the_region(subject: Subject) -> Iterator[Problem]:
    worker = subject.document.worker
    if worker is None:
        return
    topic = [] if worker.alarm_topic_arn is None else [("worker.alarmTopicArn", worker.alarm_topic_arn)]
    replies = [(f"worker.replyQueueArns[{index}]", arn) for index, arn in enumerate(worker.reply_queue_arns)]
    for path, arn in topic + replies:
        region = arn.split(":")[3]
        if region != subject.document.region:
            yield Problem(path, f"it is in {region} and the stack in {subject.document.region}; give one of the same region")


def _image_is_an_example(subject: Subject) -> Iterator[Problem]:
    document = subject.document
    if document.worker is not None and document.environment != "local" and document.worker.image.endswith(_EXAMPLE_DIGEST):
        yield Problem(
            "worker.image",
            "the digest is the example that this repository ships, no registry has it; "
            "put the digest of your mirror here before a real `pulumi up`",
        )


def _alarms_reach_somebody(subject: Subject) -> Iterator[Problem]:
    document = subject.document
    if document.worker is not None and document.environment != "local" and document.worker.alarm_topic_arn is None:
        yield Problem(
            "worker.alarmTopicArn",
            "is not given, so that its alarms are seen only by who looks; give the ARN of an SNS topic",
        )


CHECKS: tuple[Check, ...] = (
    _image_is_pinned,
    _one_owner_of_the_replicas,
    _alarm_comes_before_the_loss,
    _identities_are_of_the_region,
)
WARNINGS: tuple[Check, ...] = (_image_is_an_example, _alarms_reach_somebody)
