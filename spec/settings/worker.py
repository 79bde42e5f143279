"""The request queue and its workers: `triton-eks:worker`."""

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from spec.names import cluster_name, request_queue
from spec.problem import Problem
from spec.settings import images
from spec.settings.addresses import Endpoint
from spec.settings.fields import Cpu, Name, QueueArn, TopicArn
from spec.settings.kind import between
from spec.settings.rule import Place, rule, warning
from spec.settings.section import Section
from spec.settings.triton import owner_of_pods

QUEUE_RETENTION_DAYS = 4
"""Days after which SQS removes a message that no worker answered."""
_Pods = Annotated[int, between(1, 1000, "pods")]


class Worker(Section):
    """The workers and their queue."""

    guide: ClassVar[str] = "docs/requests.md"

    image: Name = Field(description="the image by digest, like <mirror>/triton-worker@sha256:<64 hex digits>")
    autoscaler: Literal["none", "keda"] | None = Field(
        default=None,
        description="who changes the number of pods; without it: keda where maxReplicas is given, else none",
    )
    replicas: _Pods | None = Field(
        default=None, description="the number of pods; required with autoscaler: none, else forbidden"
    )
    min_replicas: Annotated[int, between(0, 1000, "pods")] | None = Field(
        default=None,
        description="the fewest pods that KEDA leaves; without it: 0, none while the queue is empty; forbidden with "
        "autoscaler: none",
    )
    max_replicas: _Pods | None = Field(
        default=None, description="the most pods that KEDA starts; required with autoscaler: keda, else forbidden"
    )
    concurrency: Annotated[int, between(1, 1000, "requests at a time")] | None = Field(
        default=None,
        description="requests that one worker has at Triton at a time; without it: derived from the models "
        "(spec/settings/relations/worker.py)",
    )
    cpu: Cpu = Field(description='vCPUs per pod in quotes, like "1"')
    memory_mib: Annotated[int, between(128, 65_536, "MiB")] = Field(description="memory per pod in MiB, like 512")
    longest_request_seconds: Annotated[int, between(1, 3000, "seconds")] = Field(
        description="the longest request in seconds, its time in Triton's queue included, like 60"
    )
    old_message_minutes: Annotated[int, between(1, 20_160, "minutes")] = Field(
        description="the age of the oldest message in minutes at which somebody is told, like 15"
    )
    result_days: Annotated[int, between(1, 3650, "days")] = Field(
        description="days that inputs, results and failures are kept, like 30"
    )
    alarm_topic_arn: TopicArn | None = Field(
        default=None, description="the SNS topic that alarms of the queue go to; without it: they are seen only by who looks"
    )
    reply_queue_arns: tuple[QueueArn, ...] = Field(
        default=(), description="the queues that messages may name as reply_to; without it: none"
    )
    aws_endpoint: Endpoint | None = Field(
        default=None, description="an AWS of your own that workers ask, such as the twin's; without it: AWS"
    )

    @property
    def pod_autoscaler(self) -> Literal["none", "keda"]:
        """Return the owner of the number of workers: KEDA, unless the stack says none or has no `max_replicas`."""
        return owner_of_pods(self.autoscaler, self.max_replicas)

    @property
    def fewest(self) -> int:
        """Return the minimum number of workers, whatever owns the number."""
        return self.replicas or self.min_replicas or 0

    @rule
    def _image_is_pinned(self, at: Place) -> Iterator[Problem]:
        """Require the worker's image by digest."""
        yield from images.of_ours(at, "image", self.image, "triton-worker", "the worker")

    @rule
    def _one_owner_of_the_replicas(self, at: Place) -> Iterator[Problem]:
        """Require replicas without KEDA; with KEDA, require maxReplicas and minReplicas <= maxReplicas."""
        if self.pod_autoscaler == "none":
            if self.replicas is None:
                yield at.problem("replicas", "is missing; nobody else sets the number of pods while autoscaler is none")
            for key, value in (("minReplicas", self.min_replicas), ("maxReplicas", self.max_replicas)):
                if value is not None:
                    yield at.problem(key, "is of autoscaler keda and autoscaler is none; remove it, or use autoscaler: keda")
            return
        if self.replicas is not None:
            yield at.problem("replicas", "KEDA owns the number of pods; remove it, and give minReplicas and maxReplicas")
        if self.max_replicas is None:
            yield at.problem("maxReplicas", "is missing; give the most pods that KEDA may start, like 10")
        elif self.min_replicas is not None and self.min_replicas > self.max_replicas:
            yield at.problem(
                "minReplicas",
                f"{self.min_replicas} is more than maxReplicas {self.max_replicas}; give 0 to {self.max_replicas}",
            )

    @rule
    def _alarm_comes_before_the_loss(self, at: Place) -> Iterator[Problem]:
        """Require an alarm before SQS removes the message that it is about."""
        if self.old_message_minutes >= QUEUE_RETENTION_DAYS * 24 * 60:
            yield at.problem(
                "oldMessageMinutes",
                f"SQS removes a message after {QUEUE_RETENTION_DAYS} days, so that nobody would be told; "
                f"give less than {QUEUE_RETENTION_DAYS * 24 * 60}",
            )

    @rule
    def _alarm_is_not_of_every_request(self, at: Place) -> Iterator[Problem]:
        """Require an alarm age that is longer than one request may take."""
        if self.old_message_minutes * 60 <= self.longest_request_seconds:
            yield at.problem(
                "oldMessageMinutes",
                f"a request may take {self.longest_request_seconds} s, so that one alone would raise the alarm; "
                f"give more than {self.longest_request_seconds // 60}",
            )

    @rule
    def _replies_are_distinct(self, at: Place) -> Iterator[Problem]:
        """Require each reply queue once, and none that is the request queue."""
        for index, arn in enumerate(self.reply_queue_arns):
            if arn in self.reply_queue_arns[:index]:
                yield at.problem(f"replyQueueArns[{index}]", f"'{arn}' is listed twice; list each queue once")
            elif arn.rpartition(":")[2] == request_queue(cluster_name(at.stack)):
                yield at.problem(
                    f"replyQueueArns[{index}]",
                    "it is the queue of requests, and each answer would be a request; name another",
                )

    @warning
    def _inputs_outlive_their_messages(self, at: Place) -> Iterator[Problem]:
        """Warn of inputs that are deleted while the messages that name them may still wait."""
        if at.environment != "local" and self.result_days < QUEUE_RETENTION_DAYS:
            yield at.problem(
                "resultDays",
                f"inputs are deleted after {self.result_days} days, and a message that names one may wait for "
                f"{QUEUE_RETENTION_DAYS} and would fail then; give {QUEUE_RETENTION_DAYS} or more",
            )

    @warning
    def _alarms_reach_somebody(self, at: Place) -> Iterator[Problem]:
        """Warn if the queue's alarms have no recipient."""
        if at.environment != "local" and self.alarm_topic_arn is None:
            yield at.problem(
                "alarmTopicArn",
                "is not given, so that its alarms are seen only by who looks; give the ARN of an SNS topic",
            )
