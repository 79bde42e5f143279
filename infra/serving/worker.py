"""The workers that answer the request queue."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pulumi

from infra.aws.account import Account
from infra.aws.cluster_access import ClusterAccess
from infra.aws.stack import Stack
from infra.platform.installed_chart import namespace
from infra.serving.local_chart import install_local_chart
from spec import cpu_pool
from spec.iam_policy import allow, document
from spec.names import (
    FAILURES_PREFIX,
    INFERENCE_CLIENT_LABEL,
    INPUTS_PREFIX,
    RESULTS_PREFIX,
    TRITON_GRPC_PORT,
    TRITON_GRPC_URL,
    TRITON_NAMESPACE,
    WORKER,
    WORKER_CHART,
    WORKER_DEPLOYMENT,
    queue_url,
)
from spec.queue_timing import POLL_SECONDS, grace_seconds, visibility_timeout
from spec.settings.fleets import Fleet
from spec.settings.model import Settings
from spec.settings.relations.worker import concurrency, input_mib
from spec.settings.worker import Worker


class Workers(pulumi.ComponentResource):
    """The workers' namespace and our chart. With `nodes.cpu` the pods run only on those nodes.

    `opts.depends_on` has to name the prerequisites of the pods: nodes, the queue, their role.
    """

    def __init__(
        self,
        name: str,
        cluster: ClusterAccess,
        worker: Worker,
        settings: Settings,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("triton:serving:Workers", name, None, opts)
        own_namespace = namespace(
            f"{name}-namespace",
            WORKER.namespace,
            "restricted",
            cluster.in_cluster(self),
            # Triton's NetworkPolicy allows this namespace.
            {INFERENCE_CLIENT_LABEL: "true"},
        )
        # If workers preferred separate hosts, each would get its own node: docs/facts/scaling.md#preferences-of-pods.
        placement = {**cpu_pool.placement(), "spread": {"hosts": False}} if settings.nodes.cpu is not None else {}
        computed = values(cluster.stack, worker, settings) | placement
        after = cluster.in_cluster(self, own_namespace)
        install_local_chart(f"{name}-chart", cluster, WORKER_CHART, WORKER_DEPLOYMENT, WORKER, computed, after)
        self.register_outputs({})


def values(stack: Stack, worker: Worker, settings: Settings) -> dict[str, Any]:
    """Return the chart values computed from the stack; user-defined values are in `helm-values/worker`.

    A message goes to a fleet that serves its model. The values are plain text, not outputs, because `helm.v4.Chart` renders
    only known values in a preview.
    """
    at_a_time, fleets = concurrency(worker, settings), settings.each_fleet
    repository, digest = worker.image.split("@", maxsplit=1)
    longest = worker.longest_request_seconds
    computed: dict[str, Any] = {
        "image": {"repository": repository, "digest": digest},
        "aws": {"region": stack.region},
        "queue": {
            "url": stack.request_queue_url,
            "visibilityTimeoutSeconds": visibility_timeout(longest, at_a_time),
            "pollSeconds": POLL_SECONDS,
            "replyUrls": [reply_url(arn) for arn in worker.reply_queue_arns],
        },
        "bucket": stack.request_bucket,
        "triton": {
            "url": TRITON_GRPC_URL,
            "namespace": TRITON_NAMESPACE,
            "port": TRITON_GRPC_PORT,
            "longestRequestSeconds": longest,
        },
        "concurrency": at_a_time,
        "inputMiB": input_mib(worker, settings),
        "resources": {"cpu": worker.cpu, "memory": f"{worker.memory_mib}Mi"},
        "drain": {"graceSeconds": grace_seconds(longest)},
        "serviceAccount": {"name": WORKER.name},
    }
    if any(fleet.name is not None for fleet in fleets):
        computed["triton"] |= {"url": fleets[0].grpc_url, "fleets": asked_of(fleets)}
    if worker.aws_endpoint is not None:
        computed["aws"]["endpoint"] = worker.aws_endpoint
    if worker.pod_autoscaler == "none":
        computed["replicaCount"] = worker.replicas
    else:
        computed["autoscaling"] = {"owner": "external"}
    return computed


def asked_of(fleets: Sequence[Fleet[Settings]]) -> dict[str, list[str]]:
    """Return the URLs that a worker uses, by model. The fleet with the largest share of the requests is first."""
    models = sorted({model for fleet in fleets for model in _models(fleet)})
    by_part = {
        model: sorted((one for one in fleets if one.serves(model)), key=lambda one: -one.weight(model)) for model in models
    }
    return {model: [fleet.grpc_url for fleet in found] for model, found in by_part.items()}


def _models(fleet: Fleet[Settings]) -> Iterable[str]:
    release = fleet.stack.models.release
    return fleet.keys.models if fleet.keys is not None else release.models if release is not None else ()


def reply_url(arn: str) -> str:
    """Return the URL of the queue with this ARN, because messages contain URLs."""
    _, partition, _, region, account, name = arn.split(":")
    return queue_url(name, account, region, partition)


def worker_policy(
    account: Account,
    queue_arn: pulumi.Input[str],
    bucket_arn: pulumi.Input[str],
    key_arn: pulumi.Input[str],
    reply_queue_arns: tuple[str, ...],
) -> pulumi.Output[str]:
    """Return a worker's permissions: its queue, its bucket, their key only through these services, and the reply queues.

    With `s3:ListBucket`, S3 answers 404 instead of 403 for a result that does not exist yet.
    """
    services = [account.host(service) for service in ("sqs", "s3")]
    replies = [allow(["sqs:SendMessage"], list(reply_queue_arns), sid="Reply")] if reply_queue_arns else []
    return pulumi.Output.all(queue_arn, bucket_arn, key_arn).apply(
        lambda arns: document(
            allow(
                ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility"],
                [arns[0]],
                sid="WorkOnRequests",
            ),
            allow(["s3:ListBucket"], [arns[1]], sid="FindResults"),
            allow(
                ["s3:GetObject"],
                [f"{arns[1]}/{prefix}*" for prefix in (INPUTS_PREFIX, RESULTS_PREFIX)],
                sid="ReadInputsAndResults",
            ),
            allow(
                ["s3:PutObject"],
                [f"{arns[1]}/{prefix}*" for prefix in (RESULTS_PREFIX, FAILURES_PREFIX)],
                sid="WriteResultsAndFailures",
            ),
            allow(["s3:DeleteObject"], [f"{arns[1]}/{FAILURES_PREFIX}*"], sid="ForgetFailures"),
            allow(
                ["kms:Decrypt", "kms:GenerateDataKey"],
                [arns[2]],
                sid="UseTheKeyThroughQueueAndBucket",
                condition={"StringEquals": {"kms:ViaService": services}},
            ),
            *replies,
        )
    )
