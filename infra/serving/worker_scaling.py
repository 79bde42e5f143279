"""The owner of the number of workers: KEDA, by the length of the request queue."""

from __future__ import annotations

from typing import Any

import pulumi

from infra.aws.cluster_access import ClusterAccess
from infra.aws.stack import Stack
from infra.platform.installed_chart import custom_resource
from infra.serving.queue_trigger import queue_reader, queue_trigger
from spec.names import WORKER, WORKER_DEPLOYMENT
from spec.settings.worker import Worker

_POLLING_SECONDS = 15
_COOLDOWN_SECONDS = 300


class WorkerScaling(pulumi.ComponentResource):
    """Scaling of the workers by KEDA with the queue. It goes to zero when the queue is empty and no message is in process.

    `opts.depends_on` has to name KEDA's release, whose chart installs the custom resources, and `Workers`.
    """

    def __init__(
        self,
        name: str,
        cluster: ClusterAccess,
        worker: Worker,
        *,
        concurrency: int,
        queue_arn: pulumi.Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("triton:serving:WorkerScaling", name, None, opts)
        authentication = queue_reader(name, cluster, WORKER, queue_arn, parent=self)
        custom_resource(
            f"{name}-scaled-object",
            {
                "apiVersion": "keda.sh/v1alpha1",
                "kind": "ScaledObject",
                "metadata": {"name": WORKER.name, "namespace": WORKER.namespace},
                "spec": scaling_spec(cluster.stack, worker, concurrency),
            },
            cluster.in_cluster(self, authentication),
        )
        self.register_outputs({})


def scaling_spec(stack: Stack, worker: Worker, concurrency: int) -> dict[str, Any]:
    """Return the spec of the ScaledObject."""
    return {
        "scaleTargetRef": {"name": WORKER_DEPLOYMENT},
        "minReplicaCount": worker.min_replicas or 0,
        "maxReplicaCount": worker.max_replicas,
        "pollingInterval": _POLLING_SECONDS,
        "cooldownPeriod": _COOLDOWN_SECONDS,
        "triggers": [queue_trigger(stack, worker, WORKER.name, concurrency)],
    }
