"""The workers: an image that is known and fixed, one owner of their number, and times that fit the queue."""

import re
from collections.abc import Iterator

from infra.settings.checks.subject import Check, Subject
from infra.settings.problem import Problem

_IMAGE = re.compile(r"[a-z0-9.-]+(:\d+)?(/[a-z0-9._-]+)*/triton-worker@(sha256:[0-9a-f]{64})")
_BY_DIGEST = "give <mirror>/triton-worker@sha256:<64 hex digits> (`crane digest` prints it)"


def _image_is_pinned(subject: Subject) -> Iterator[Problem]:
    worker = subject.document.worker
    if worker is None:
        return
    match = _IMAGE.fullmatch(worker.image)
    if match is None:
        why = f"'{worker.image}' is not an image of the worker by its digest: its path has to end in /triton-worker"
        yield Problem("worker.image", f"{why}; {_BY_DIGEST}")
    elif len(set(match[3].removeprefix("sha256:"))) == 1:
        yield Problem("worker.image", f"'{match[3][:19]}...' is a placeholder; {_BY_DIGEST}")


def _one_owner_of_the_replicas(subject: Subject) -> Iterator[Problem]:
    worker = subject.document.worker
    if worker is None:
        return
    if worker.scaler == "none":
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


CHECKS: tuple[Check, ...] = (
    _image_is_pinned,
    _one_owner_of_the_replicas,
    _alarm_comes_before_the_loss,
    _identities_are_of_the_region,
)
