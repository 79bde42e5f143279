"""The request queue as a trigger of KEDA's: who may look at it, and how it is asked."""

from __future__ import annotations

from typing import Any

import pulumi

from infra.aws.cluster_access import ClusterAccess
from infra.aws.identity import WorkloadRole, WorkloadRoleArgs
from infra.aws.stack import Stack
from infra.platform.installed_chart import custom_resource
from spec.iam_policy import allow, document
from spec.names import KEDA_OPERATOR, ServiceAccount
from spec.settings.worker import Worker


def queue_reader(
    name: str, cluster: ClusterAccess, reader: ServiceAccount, queue_arn: pulumi.Input[str], parent: pulumi.Resource
) -> pulumi.Resource:
    """Register a TriggerAuthentication that is called like `reader`, in its namespace, and its role; return the former.

    KEDA's operator takes a role of this queue's own (`podIdentity.roleArn`), which may ask for the queue's attributes and
    nothing else. It does so with the token that the identity webhook gives it, so that its service account has to be
    annotated with a role of its own (docs/facts/scaling.md#identity-of-a-trigger).
    """
    role = WorkloadRole(
        f"{name}-keda",
        cluster,
        WorkloadRoleArgs(
            description="KEDA reads the length of the request queue",
            service_account=KEDA_OPERATOR,
            identity="irsa",
            policy=pulumi.Output.from_input(queue_arn).apply(
                lambda arn: document(allow(["sqs:GetQueueAttributes"], [arn], sid="MeasureTheQueue"))
            ),
        ),
        pulumi.ResourceOptions(parent=parent),
    )
    return custom_resource(
        f"{name}-authentication",
        {
            "apiVersion": "keda.sh/v1alpha1",
            "kind": "TriggerAuthentication",
            "metadata": {"name": reader.name, "namespace": reader.namespace},
            "spec": authentication_spec(role.arn),
        },
        cluster.in_cluster(parent),
    )


def authentication_spec(role_arn: pulumi.Input[str]) -> dict[str, Any]:
    """Return the TriggerAuthentication: `aws` (`aws-eks` and the trigger's own identityOwner are deprecated)."""
    return {"podIdentity": {"provider": "aws", "roleArn": role_arn}}


def queue_trigger(stack: Stack, worker: Worker, authentication: str, length: int) -> dict[str, Any]:
    """Return the trigger: one pod for each `length` messages that wait or are in hand. `authentication`: by which it asks.

    Every value of its metadata is text: the CRD refuses numbers.
    """
    metadata = {
        "queueURL": stack.request_queue_url,
        "queueLength": str(length),
        # The workload is started by more than this: with 1, a single message would wait for a second one.
        "activationQueueLength": "0",
        "awsRegion": stack.region,
        # What is in hand counts, or pods would be ended while they work on the last messages.
        "scaleOnInFlight": "true",
    }
    if worker.aws_endpoint is not None:
        metadata["awsEndpoint"] = worker.aws_endpoint
    return {
        "type": "aws-sqs-queue",
        "name": "requests",
        "metricType": "AverageValue",
        "authenticationRef": {"name": authentication},
        "metadata": metadata,
    }
