"""The asynchronous path of a stack, the request queue and the workers that answer from it: `triton-eks:worker`."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from spec.settings.fields import Cpu, Endpoint, Name, QueueArn, TopicArn, between
from spec.settings.section import Section

_Pods = Annotated[int, between(1, 1000, "pods")]


class Worker(Section):
    """Workers and their queue."""

    guide: ClassVar[str] = "docs/requests.md"

    image: Name = Field(description="the image by digest, like <mirror>/triton-worker@sha256:<64 hex digits>")
    scaler: Literal["none", "keda"] | None = Field(
        default=None,
        description="who changes the number of pods; without it: keda where maxReplicas is given, else none",
    )
    replicas: _Pods | None = Field(
        default=None, description="the number of pods; required with scaler: none, else forbidden"
    )
    min_replicas: Annotated[int, between(0, 1000, "pods")] | None = Field(
        default=None,
        description="the fewest pods that KEDA leaves; without it: 0, none while the queue is empty; forbidden with scaler: "
        "none",
    )
    max_replicas: _Pods | None = Field(
        default=None, description="the most pods that KEDA starts; required with scaler: keda, else forbidden"
    )
    messages_per_replica: Annotated[int, between(1, 100_000, "messages")] | None = Field(
        default=None,
        description="how many messages, waiting or being answered, KEDA counts on one pod for; without it: the concurrency; "
        "forbidden with scaler: none",
    )
    concurrency: Annotated[int, between(1, 1000, "requests at a time")] | None = Field(
        default=None,
        description="requests that one worker has at Triton at a time; without it: derived from the models "
        "(infra/serving/worker.py)",
    )
    cpu: Cpu = Field(description='vCPUs per pod in quotes, like "1"')
    memory_mib: Annotated[int, between(128, 65_536, "MiB")] = Field(description="memory per pod in MiB, like 512")
    longest_request_seconds: Annotated[int, between(1, 3000, "seconds")] = Field(
        description="the longest request in seconds, its time in Triton's queue included, like 60"
    )
    max_receive_count: Annotated[int, between(2, 1000, "attempts")] = Field(
        default=5, description="how often a message is tried before it goes to the queue of failures"
    )
    retention_days: Annotated[int, between(1, 14, "days")] = Field(
        default=4, description="days after which SQS removes a message that nobody answered"
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
    def autoscaler(self) -> Literal["none", "keda"]:
        """Return who owns the number of workers: KEDA, unless the stack says none, or gives no `max_replicas`."""
        return self.scaler or ("keda" if self.max_replicas is not None else "none")
