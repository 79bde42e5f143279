"""The request queue as a KEDA trigger: its permissions and its definition."""

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
    """Register a TriggerAuthentication with the name and namespace of `reader` and its role, and return the former.

    KEDA's operator assumes a role only for this queue (`podIdentity.roleArn`), which may only read the queue's attributes.
    It uses the token from the identity webhook. So the operator's service account has to be annotated with a role of its own
    (docs/facts/scaling.md#identity-of-a-trigger).
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
    """Return the TriggerAuthentication with provider `aws` (`aws-eks` and the trigger's identityOwner are deprecated)."""
    return {"podIdentity": {"provider": "aws", "roleArn": role_arn}}


def queue_trigger(stack: Stack, worker: Worker, authentication: str, length: int) -> dict[str, Any]:
    """Return the trigger: one pod for each `length` waiting or processed messages. `authentication` is its
    TriggerAuthentication.

    All of its metadata are strings, because the CRD refuses numbers.
    """
    metadata = {
        "queueURL": stack.request_queue_url,
        "queueLength": str(length),
        # The workload starts above this number: with 1, a single message would wait for a second one.
        "activationQueueLength": "0",
        "awsRegion": stack.region,
        # Messages in process count; otherwise KEDA would remove pods that work on the last messages.
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
