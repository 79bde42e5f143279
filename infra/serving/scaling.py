"""The one owner of the number of Triton pods: KEDA's ScaledObject or a HorizontalPodAutoscaler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import pulumi
import pulumi_kubernetes as k8s

from infra.aws.cluster_access import ClusterAccess
from infra.aws.stack import Stack
from infra.platform.installed_chart import custom_resource
from infra.platform.prometheus_stack import prometheus_url
from infra.serving.queue_trigger import queue_reader, queue_trigger
from spec.names import TRITON_NAMESPACE, ServiceAccount
from spec.scaling.manifests import WITHOUT_A_SECOND_POD, autoscaler_spec, scaled_object_spec
from spec.settings.fleets import Fleet
from spec.settings.model import Settings
from spec.settings.worker import Worker


@dataclass(frozen=True)
class Wake:
    """The request queue and its workers. The queue starts the first pod of a fleet without pods."""

    worker: Worker
    queue_arn: pulumi.Input[str]


class TritonScaling(pulumi.ComponentResource):
    """The autoscaler of a Triton fleet, exactly one of the two.

    It has the name of the fleet's Deployment, and so has the HorizontalPodAutoscaler that KEDA creates; a second owner is
    refused. `opts.depends_on` has to name Triton and the source of the metrics: KEDA, which installs the custom resource, or
    prometheus-adapter. `wake` is for a fleet with minReplicas 0.
    """

    def __init__(
        self,
        name: str,
        cluster: ClusterAccess,
        fleet: Fleet[Settings],
        wake: Wake | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("triton:serving:TritonScaling", name, None, opts)
        if fleet.stack.pod_autoscaler == "keda":
            spec, needed = scaled_object_spec(fleet.stack, prometheus_url(fleet.stack), fleet.deployment), []
            if fleet.stack.fewest_pods == 0 and wake is not None:
                reader = ServiceAccount(TRITON_NAMESPACE, fleet.release)
                needed = [queue_reader(name, cluster, reader, wake.queue_arn, parent=self)]
                spec["triggers"].append(first_pod_trigger(cluster.stack, wake.worker, reader.name))
            custom_resource(
                f"{name}-scaled-object",
                {
                    "apiVersion": "keda.sh/v1alpha1",
                    "kind": "ScaledObject",
                    "metadata": {"name": fleet.release, "namespace": TRITON_NAMESPACE},
                    "spec": spec,
                },
                cluster.in_cluster(self, *needed),
            )
        else:
            k8s.autoscaling.v2.HorizontalPodAutoscaler(
                f"{name}-autoscaler",
                metadata=k8s.meta.v1.ObjectMetaArgs(name=fleet.release, namespace=TRITON_NAMESPACE),
                spec=cast(Any, autoscaler_spec(fleet.stack, fleet.deployment)),
                opts=cluster.in_cluster(self),
            )
        self.register_outputs({})


def first_pod_trigger(stack: Stack, worker: Worker, authentication: str) -> dict[str, Any]:
    """Return the trigger by which queued messages start the first pod, but never a second."""
    return queue_trigger(stack, worker, authentication, WITHOUT_A_SECOND_POD)
