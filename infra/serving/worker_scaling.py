"""The owner of the number of workers: KEDA, with the length of the request queue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi

from infra.aws.cluster_access import ClusterAccess
from infra.aws.identity import WorkloadRole, WorkloadRoleArgs
from infra.aws.stack import Stack
from infra.platform.installed_chart import custom_resource
from spec.iam_policy import allow, document
from spec.names import KEDA_OPERATOR, WORKER, WORKER_DEPLOYMENT
from spec.settings.worker import Worker

_POLLING_SECONDS = 15
_COOLDOWN_SECONDS = 300


class WorkerScaling(pulumi.ComponentResource):
    """KEDA scales the workers with the queue, to none when it is empty and nothing is in hand.

    Give `opts.depends_on` KEDA's release, whose chart brings the kinds, and `Workers`. KEDA's operator takes a role of this
    queue's own (`podIdentity.roleArn`), which may ask for the queue's attributes and nothing else. It does so with the token
    that the identity webhook gives it, so that its service account has to be annotated with a role of its own
    (docs/facts/scaling.md#identity-of-a-trigger).
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
        role = WorkloadRole(
            f"{name}-keda",
            cluster,
            WorkloadRoleArgs(
                description="KEDA reads the length of the request queue",
                service_account=KEDA_OPERATOR,
                policy=pulumi.Output.from_input(queue_arn).apply(
                    lambda arn: document(allow(["sqs:GetQueueAttributes"], [arn], sid="MeasureTheQueue"))
                ),
            ),
            pulumi.ResourceOptions(parent=self),
        )
        authentication = custom_resource(
            f"{name}-authentication",
            _manifest("TriggerAuthentication", authentication_spec(role.arn)),
            cluster.in_cluster(self),
        )
        custom_resource(
            f"{name}-scaled-object",
            _manifest("ScaledObject", scaling_spec(cluster.stack, worker, concurrency)),
            cluster.in_cluster(self, authentication),
        )
        self.register_outputs({})


def authentication_spec(role_arn: pulumi.Input[str]) -> dict[str, Any]:
    """Return the TriggerAuthentication: `aws` (`aws-eks` and the trigger's own identityOwner are deprecated)."""
    return {"podIdentity": {"provider": "aws", "roleArn": role_arn}}


def scaling_spec(stack: Stack, worker: Worker, concurrency: int) -> dict[str, Any]:
    """Return the ScaledObject. Every value of a trigger's metadata is text: the CRD refuses numbers."""
    metadata = {
        "queueURL": stack.request_queue_url,
        "queueLength": str(worker.messages_per_replica or concurrency),
        # The workload is started by more than this: with 1, a single message would wait for a second one.
        "activationQueueLength": "0",
        "awsRegion": stack.region,
        # What is in hand counts, or the workers would be ended while they work on the last messages.
        "scaleOnInFlight": "true",
    }
    if worker.aws_endpoint is not None:
        metadata["awsEndpoint"] = worker.aws_endpoint
    return {
        "scaleTargetRef": {"name": WORKER_DEPLOYMENT},
        "minReplicaCount": worker.min_replicas or 0,
        "maxReplicaCount": worker.max_replicas,
        "pollingInterval": _POLLING_SECONDS,
        "cooldownPeriod": _COOLDOWN_SECONDS,
        "triggers": [
            {
                "type": "aws-sqs-queue",
                "name": "requests",
                "metricType": "AverageValue",
                "authenticationRef": {"name": WORKER.name},
                "metadata": metadata,
            }
        ],
    }


def _manifest(kind: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {"name": WORKER.name, "namespace": WORKER.namespace}
    return {"apiVersion": "keda.sh/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}
