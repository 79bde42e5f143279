"""What scales the workers: KEDA, with the length of the request queue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from infra.aws.identity import OidcProvider, WorkloadRole, WorkloadRoleArgs, irsa_trust
from spec.iam_policy import allow, document
from spec.names import KEDA_OPERATOR, WORKER, WORKER_DEPLOYMENT
from spec.settings.worker import Worker

_POLLING_SECONDS = 15
_COOLDOWN_SECONDS = 300


@dataclass(frozen=True)
class WorkerScalingArgs:
    """`oidc` is the cluster's; `queue_url` plain text, `queue_arn` may be an output."""

    kubernetes: k8s.Provider
    oidc: OidcProvider
    worker: Worker
    concurrency: int
    queue_url: str
    queue_arn: pulumi.Input[str]
    region: str
    tags: Mapping[str, str]


class WorkerScaling(pulumi.ComponentResource):
    """KEDA scales the workers with the queue, to none when it is empty and nothing is in hand.

    Give `opts.depends_on` KEDA's release, whose chart brings the kinds, and `Workers`. KEDA's operator takes a role of this
    queue's own (`podIdentity.roleArn`), which may ask for the queue's attributes and nothing else. It does so with the token
    that the identity webhook gives it, so that its service account has to be annotated with a role of its own
    (docs/facts/scaling.md#identity-of-a-trigger).
    """

    def __init__(self, name: str, args: WorkerScalingArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("triton:serving:WorkerScaling", name, None, opts)
        child = pulumi.ResourceOptions(parent=self, provider=args.kubernetes)
        role = WorkloadRole(
            f"{name}-keda",
            WorkloadRoleArgs(
                description="KEDA reads the length of the request queue",
                service_account=KEDA_OPERATOR,
                trust=irsa_trust(args.oidc, KEDA_OPERATOR),
                policy=pulumi.Output.from_input(args.queue_arn).apply(
                    lambda arn: document(allow(["sqs:GetQueueAttributes"], [arn], sid="MeasureTheQueue"))
                ),
                tags=args.tags,
            ),
            pulumi.ResourceOptions(parent=self),
        )
        authentication = k8s.apiextensions.CustomResource(
            f"{name}-authentication",
            api_version="keda.sh/v1alpha1",
            kind="TriggerAuthentication",
            metadata=_metadata(),
            spec=authentication_spec(role.arn),
            opts=child,
        )
        k8s.apiextensions.CustomResource(
            f"{name}-scaled-object",
            api_version="keda.sh/v1alpha1",
            kind="ScaledObject",
            metadata=_metadata(),
            spec=scaling_spec(args),
            opts=pulumi.ResourceOptions(parent=self, provider=args.kubernetes, depends_on=[authentication]),
        )
        self.register_outputs({})


def authentication_spec(role_arn: pulumi.Input[str]) -> dict[str, Any]:
    """The TriggerAuthentication: `aws` (`aws-eks` and the trigger's own identityOwner are deprecated)."""
    return {"podIdentity": {"provider": "aws", "roleArn": role_arn}}


def scaling_spec(args: WorkerScalingArgs) -> dict[str, Any]:
    """The ScaledObject. Every value of a trigger's metadata is text: the CRD refuses numbers."""
    worker = args.worker
    metadata = {
        "queueURL": args.queue_url,
        "queueLength": str(worker.messages_per_replica or args.concurrency),
        # The workload is started by more than this: with 1, a single message would wait for a second one.
        "activationQueueLength": "0",
        "awsRegion": args.region,
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


def _metadata() -> k8s.meta.v1.ObjectMetaArgs:
    return k8s.meta.v1.ObjectMetaArgs(name=WORKER.name, namespace=WORKER.namespace)
