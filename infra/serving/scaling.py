"""The one owner of the number of Triton's pods: a ScaledObject of KEDA, or a HorizontalPodAutoscaler."""

from __future__ import annotations

from typing import Any, cast

import pulumi
import pulumi_kubernetes as k8s

from infra.aws.cluster_access import ClusterAccess
from infra.platform.installed_chart import custom_resource
from infra.platform.prometheus_stack import prometheus_url
from spec.names import TRITON_NAMESPACE
from spec.scaling.manifests import autoscaler_spec, scaled_object_spec
from spec.settings.fleets import Fleet
from spec.settings.model import Settings


class TritonScaling(pulumi.ComponentResource):
    """The autoscaler of a fleet of Triton, exactly one of the two.

    It is called like the fleet's Deployment, as is the HorizontalPodAutoscaler that KEDA makes: of two, the second is
    refused. Give `opts.depends_on` Triton and what serves the metrics: KEDA, which brings the kind, or prometheus-adapter.
    """

    def __init__(
        self, name: str, cluster: ClusterAccess, fleet: Fleet[Settings], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("triton:serving:TritonScaling", name, None, opts)
        if fleet.stack.pod_autoscaler == "keda":
            custom_resource(
                f"{name}-scaled-object",
                {
                    "apiVersion": "keda.sh/v1alpha1",
                    "kind": "ScaledObject",
                    "metadata": {"name": fleet.release, "namespace": TRITON_NAMESPACE},
                    "spec": scaled_object_spec(fleet.stack, prometheus_url(fleet.stack), fleet.deployment),
                },
                cluster.in_cluster(self),
            )
        elif fleet.stack.pod_autoscaler == "hpa":
            k8s.autoscaling.v2.HorizontalPodAutoscaler(
                f"{name}-autoscaler",
                metadata=k8s.meta.v1.ObjectMetaArgs(name=fleet.release, namespace=TRITON_NAMESPACE),
                spec=cast(Any, autoscaler_spec(fleet.stack, fleet.deployment)),
                opts=cluster.in_cluster(self),
            )
        else:
            raise ValueError(f"the pods of {fleet.release} have no autoscaler: triton.autoscaler is none")
        self.register_outputs({})
