"""The asynchronous path of a stack: the request queue and the workers that answer it."""

from typing import Annotated, Literal

from pydantic import Field

from spec.settings.fields import Cpu, Endpoint, Name, QueueArn, TopicArn, between
from spec.settings.section import Section

_Pods = Annotated[int, between(1, 1000, "pods")]


class Worker(Section):
    """Workers and their queue. Absent: neither.

    `scaler` owns the number of pods (`autoscaler` is its default): `none` takes `replicas`, `keda` takes `min_replicas` (0:
    none while the queue is empty) and `max_replicas`. `messages_per_replica`: messages, in the queue or in hand, for which
    KEDA wants one more pod; None: the concurrency. `concurrency`: requests that one worker has at Triton at a time; None:
    derived from the models (`infra.serving.worker.concurrency`). `longest_request_seconds`: of one request, its time in
    Triton's queue included. `max_receive_count`: attempts of a message. `result_days`: how long inputs, results and
    failures are kept. `reply_queue_arns`: queues that messages may name as `reply_to`. `aws_endpoint`: an AWS of one's own
    (the twin's).
    """

    image: Name = Field(description="the image by digest, like <mirror>/triton-worker@sha256:<64 hex digits>")
    scaler: Literal["none", "keda"] | None = None
    replicas: _Pods | None = None
    min_replicas: Annotated[int, between(0, 1000, "pods")] | None = None
    max_replicas: _Pods | None = None
    messages_per_replica: Annotated[int, between(1, 100_000, "messages")] | None = None
    concurrency: Annotated[int, between(1, 1000, "requests at a time")] | None = None
    cpu: Cpu = Field(description='vCPUs per pod in quotes, like "1"')
    memory_mib: Annotated[int, between(128, 65_536, "MiB")] = Field(description="memory per pod in MiB, like 512")
    longest_request_seconds: Annotated[int, between(1, 3000, "seconds")] = Field(
        description="the longest request in seconds, its time in Triton's queue included, like 60"
    )
    max_receive_count: Annotated[int, between(2, 1000, "attempts")] = 5
    retention_days: Annotated[int, between(1, 14, "days")] = 4
    old_message_minutes: Annotated[int, between(1, 20_160, "minutes")] = Field(
        description="the age of the oldest message in minutes at which somebody is told, like 15"
    )
    result_days: Annotated[int, between(1, 3650, "days")] = Field(
        description="days that inputs, results and failures are kept, like 30"
    )
    alarm_topic_arn: TopicArn | None = None
    reply_queue_arns: tuple[QueueArn, ...] = ()
    aws_endpoint: Endpoint | None = None

    @property
    def autoscaler(self) -> Literal["none", "keda"]:
        """Who owns the number of workers: KEDA, unless the stack says none, or gives no `max_replicas`."""
        return self.scaler or ("keda" if self.max_replicas is not None else "none")
