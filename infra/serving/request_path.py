"""Asynchronous requests: the queue, the bucket and the workers."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi

from infra.aws.cluster_access import ClusterAccess
from infra.aws.identity import WorkloadRole, WorkloadRoleArgs
from infra.aws.queue import RequestQueue
from infra.serving import worker as workers
from infra.serving.worker_scaling import WorkerScaling
from spec.names import WORKER
from spec.queue_timing import visibility_timeout
from spec.settings import Settings
from spec.settings.relations.worker import concurrency


def answer_requests(
    cluster: ClusterAccess,
    settings: Settings,
    *,
    pod_autoscaler: Sequence[pulumi.Resource],
    after: Sequence[pulumi.Resource],
) -> RequestQueue | None:
    """Register the queue and workers if the stack has workers, and return the queue. `after` are the workers'
    prerequisites."""
    worker, stack = settings.worker, cluster.stack
    if worker is None:
        return None
    at_a_time = concurrency(worker, settings)
    timeout = visibility_timeout(worker.longest_request_seconds, at_a_time)
    requests = RequestQueue("requests", stack, worker, visibility_timeout_seconds=timeout)
    role = WorkloadRole(
        "worker",
        cluster,
        WorkloadRoleArgs(
            description=f"Workers of {stack.cluster_name} answer requests",
            service_account=WORKER,
            policy=workers.worker_policy(
                stack.account, requests.arn, requests.bucket_arn, requests.key_arn, worker.reply_queue_arns
            ),
        ),
    )
    pods = workers.Workers(
        "workers",
        cluster,
        worker,
        settings,
        opts=pulumi.ResourceOptions(depends_on=[*after, requests, role]),
    )
    if worker.pod_autoscaler == "keda":
        WorkerScaling(
            "worker-scaling",
            cluster,
            worker,
            concurrency=at_a_time,
            queue_arn=requests.arn,
            opts=pulumi.ResourceOptions(depends_on=[pods, *pod_autoscaler]),
        )
    return requests
