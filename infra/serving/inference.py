"""Inference: Triton with the stack's release, its routes, its autoscaling and the parity check of its pods."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi

from infra.aws.cluster_access import ClusterAccess
from infra.aws.lustre import LustreCache
from infra.aws.queue import RequestQueue
from infra.aws.storage import ModelBucket
from infra.serving import all_models_route, openai_route, routed_model, routes
from infra.serving.comparer import Compared, Comparer
from infra.serving.parity import ParityExporter
from infra.serving.plan_builder import PlanBuilder
from infra.serving.rollouts import RolloutAccess
from infra.serving.scaling import TritonScaling, Wake
from infra.serving.triton import FleetArgs, TritonServer
from infra.serving.triton_values import Drain
from spec.settings import Settings


def serve_models(
    cluster: ClusterAccess,
    settings: Settings,
    drain: Drain,
    *,
    cache: LustreCache | None,
    gateway: Sequence[pulumi.Resource],
    pod_autoscaler: Sequence[pulumi.Resource],
    requests: RequestQueue | None,
    models: ModelBucket,
    after: Sequence[pulumi.Resource],
) -> None:
    """Register Triton and its related components; none before the first `modelctl release`.

    `after` are the prerequisites of Triton's pods. `gateway` installs the custom resources of the routes, and
    `pod_autoscaler` those of the scaling. `requests` is the queue that starts a fleet without pods. `models` is the bucket
    for plans.
    """
    release = settings.models.release
    if release is None:
        return
    fleets = settings.each_fleet
    triton = TritonServer(
        "triton",
        cluster,
        [FleetArgs.of(fleet, settings, cache.mount if cache is not None else None) for fleet in fleets],
        pulumi.ResourceOptions(depends_on=[*after, *([cache] if cache is not None else [])]),
    )
    if settings.gateway is not None:
        routed = routed_model.routed(settings.models, settings.gateway, fleets)
        beside = [*openai_route.manifests(settings, drain), *all_models_route.manifests(settings, drain)]
        compared = Compared.of(settings, drain.longest_request_seconds)
        # After Triton, and before the routes with copies, because a route with a missing Service fails for all clients.
        after_triton = pulumi.ResourceOptions(depends_on=[triton])
        comparer = [Comparer("comparer", cluster, compared, after_triton)] if compared is not None else []
        opts = pulumi.ResourceOptions(depends_on=[triton, *gateway, *comparer])
        routes.ModelRoutes("routes", cluster, routed, drain, beside, opts)
    wake = Wake(settings.worker, requests.arn) if settings.worker is not None and requests is not None else None
    for fleet in fleets:
        if fleet.stack.pod_autoscaler != "none":
            opts = pulumi.ResourceOptions(depends_on=[triton, *pod_autoscaler])
            TritonScaling(f"{fleet.release}-scaling", cluster, fleet, wake, opts)
    if settings.cluster.rollout_role_arns:
        in_place = any(fleet.stack.triton.rollout == "in-place" for fleet in fleets)
        RolloutAccess("rollouts", cluster, in_place=in_place, opts=pulumi.ResourceOptions(depends_on=[triton]))
    if settings.monitoring is not None and settings.monitoring.parity_image is not None:
        image = settings.monitoring.parity_image
        ParityExporter("parity", cluster, image, pulumi.ResourceOptions(depends_on=[triton]))
    if settings.models.plan_builder is not None:
        PlanBuilder("plan-builder", cluster, models, pulumi.ResourceOptions(depends_on=[triton]))
