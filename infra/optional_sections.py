"""The sections of a stack file that may be absent: each function deploys one of them, and nothing where the stack has none.

What a function returns is what others wait for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi

from infra.aws.account import Account
from infra.aws.addons import Addons
from infra.aws.cluster import Cluster
from infra.aws.identity import WorkloadRole, WorkloadRoleArgs, irsa_trust, role_arn
from infra.aws.lustre import LustreCache, LustreCacheArgs
from infra.aws.network import Network
from infra.aws.nodes import Nodes
from infra.aws.queue import RequestQueue, RequestQueueArgs
from infra.aws.storage import ModelBucket
from infra.platform import tracing
from infra.platform.cluster_autoscaler import ClusterAutoscaler, ClusterAutoscalerArgs
from infra.platform.gateway import InferenceGateway, InferenceGatewayArgs
from infra.platform.gpu_metrics import GpuMetrics, GpuMetricsArgs
from infra.platform.karpenter import Karpenter, KarpenterArgs
from infra.platform.keda import Keda, KedaArgs
from infra.platform.load_balancer_controller import LoadBalancerController, LoadBalancerControllerArgs
from infra.platform.monitoring import Monitoring, MonitoringArgs
from infra.platform.opencost import OpenCost, OpenCostArgs
from infra.platform.prometheus_adapter import PrometheusAdapter, PrometheusAdapterArgs
from infra.serving import options, routes
from infra.serving import worker as workers
from infra.serving.parity import ParityExporter, ParityExporterArgs
from infra.serving.scaling import TritonScaling, TritonScalingArgs
from infra.serving.triton import TritonServer
from infra.serving.warm_pods import WarmPods, WarmPodsArgs
from infra.serving.worker_scaling import WorkerScaling, WorkerScalingArgs
from spec.names import (
    GATEWAY_NAMESPACE,
    MONITORING_NAMESPACE,
    PROMETHEUS_URL,
    TRITON_NAMESPACE,
    WORKER,
    model_bucket,
    queue_url,
    request_bucket,
    request_queue,
    workload_role,
)
from spec.queue_timing import visibility_timeout
from spec.settings import Release, Settings
from spec.versions import KUBERNETES


@dataclass(frozen=True)
class Foundation:
    """What every environment has and all of its optional sections stand on."""

    settings: Settings
    account: Account
    network: Network
    cluster: Cluster
    nodes: Nodes
    addons: Addons
    tags: Mapping[str, str]


Resources = Sequence[pulumi.Resource]


def model_cache(base: Foundation, models: ModelBucket, zones: Sequence[str]) -> LustreCache | None:
    """The file system that the models are read from, in the first of `zones` in which Triton may run."""
    settings = base.settings
    if settings.models.fsx is None:
        return None
    confined = settings.triton_pool.zones
    zone = next(zone for zone in zones if confined is None or zone in confined)
    return LustreCache(
        "model-cache",
        LustreCacheArgs(
            cluster_name=settings.cluster_name,
            vpc_id=base.network.vpc_id,
            subnet_id=base.network.private_subnet_ids[zone],
            nodes_security_group_id=base.cluster.security_group_id,
            bucket_name=model_bucket(settings.environment, base.account.id, base.account.region),
            key_arn=models.key_arn,
            fsx=settings.models.fsx,
            tags=base.tags,
        ),
        pulumi.ResourceOptions(depends_on=[models]),
    )


def monitoring(base: Foundation) -> Resources:
    """What watches: everything or nothing. Whoever brings a ServiceMonitor waits for it, because the kind comes with it."""
    settings = base.settings
    if settings.monitoring is None:
        return []
    monitoring = Monitoring(
        "monitoring",
        MonitoringArgs(
            kubernetes=base.cluster.kubernetes,
            account=base.account,
            oidc=base.cluster.oidc,
            settings=settings,
            wanted=settings.monitoring,
            tags=base.tags,
        ),
        pulumi.ResourceOptions(depends_on=[base.nodes.system, base.addons]),
    )
    GpuMetrics(
        "gpu-metrics",
        GpuMetricsArgs(
            kubernetes=base.cluster.kubernetes,
            namespace=MONITORING_NAMESPACE,
            sharing=[pool.sharing for pool in settings.gpu.pools],
        ),
        pulumi.ResourceOptions(depends_on=[monitoring]),
    )
    if settings.monitoring.open_cost:
        OpenCost(
            "opencost",
            OpenCostArgs(
                kubernetes=base.cluster.kubernetes,
                namespace=MONITORING_NAMESPACE,
                cluster_name=settings.cluster_name,
            ),
            pulumi.ResourceOptions(depends_on=[monitoring]),
        )
    return [monitoring]


def node_autoscaler(base: Foundation, monitoring: Resources) -> Resources:
    """What starts nodes: one thing or nothing, never two that undo each other's work."""
    settings = base.settings
    monitored = settings.monitoring is not None
    after = pulumi.ResourceOptions(depends_on=[base.nodes.system, base.addons, *monitoring])
    if settings.node_autoscaler == "karpenter":
        karpenter = KarpenterArgs(
            account=base.account,
            kubernetes=base.cluster.kubernetes,
            cluster_name=settings.cluster_name,
            cluster_arn=base.cluster.arn,
            node_role_name=base.nodes.role_name,
            node_role_arn=base.nodes.role_arn,
            security_group_id=base.cluster.security_group_id,
            subnet_ids=base.network.private_subnet_ids,
            ami_release=KUBERNETES[settings.cluster.version].ami_release,
            pools=settings.gpu.pools,
            isolated=settings.network.nat == "none",
            monitored=monitored,
            tags=base.tags,
        )
        return [Karpenter("karpenter", karpenter, after)]
    if settings.node_autoscaler == "cluster-autoscaler":
        autoscaler = ClusterAutoscalerArgs(
            account=base.account,
            kubernetes=base.cluster.kubernetes,
            oidc=base.cluster.oidc,
            cluster_name=settings.cluster_name,
            kubernetes_version=settings.cluster.version,
            monitored=monitored,
            tags=base.tags,
        )
        return [ClusterAutoscaler("cluster-autoscaler", autoscaler, after)]
    return []


def pod_autoscaler(base: Foundation, monitoring: Resources) -> Resources:
    """What scales pods, or serves the numbers for it: where nothing is scaled, nothing."""
    settings, kubernetes = base.settings, base.cluster.kubernetes
    after = pulumi.ResourceOptions(depends_on=[base.nodes.system, base.addons, *monitoring])
    found: list[pulumi.Resource] = []
    if settings.pod_autoscaler == "keda" or (settings.worker is not None and settings.worker.autoscaler == "keda"):
        monitored = settings.monitoring is not None
        keda = KedaArgs(kubernetes=kubernetes, oidc=base.cluster.oidc, monitored=monitored, tags=base.tags)
        found.append(Keda("keda", keda, after))
    if settings.pod_autoscaler == "hpa":
        adapter = PrometheusAdapterArgs(kubernetes=kubernetes, prometheus_url=_prometheus_url(settings))
        found.append(PrometheusAdapter("prometheus-adapter", adapter, after))
    return found


def gateway(base: Foundation) -> Resources:
    """The gateway, and what makes its load balancer."""
    settings = base.settings
    if settings.gateway is None:
        return []
    controller = LoadBalancerController(
        "load-balancer-controller",
        LoadBalancerControllerArgs(
            kubernetes=base.cluster.kubernetes,
            account=base.account,
            oidc=base.cluster.oidc,
            cluster_name=settings.cluster_name,
            vpc_id=base.network.vpc_id,
            tags=base.tags,
        ),
        pulumi.ResourceOptions(depends_on=[base.addons]),
    )
    gateway = InferenceGateway(
        "gateway",
        InferenceGatewayArgs(
            kubernetes=base.cluster.kubernetes,
            gateway=settings.gateway,
            vpc_cidr=settings.network.cidr,
            routes_namespace=TRITON_NAMESPACE,
            longest_request_seconds=options.drain_seconds(settings.environment, "longestRequestSeconds"),
            traced=settings.tracing is not None,
            tags=base.tags,
        ),
        pulumi.ResourceOptions(depends_on=[controller]),
    )
    return [gateway]


def collector(base: Foundation, gateway: Resources) -> None:
    """What keeps traces. The gateway brings the kind of the grant by which it names the collector."""
    settings = base.settings
    if settings.tracing is None:
        return
    tracing.Collector(
        "collector",
        tracing.CollectorArgs(
            kubernetes=base.cluster.kubernetes,
            oidc=base.cluster.oidc,
            tracing=settings.tracing,
            serving=settings.models.serving,
            longest_request_seconds=options.drain_seconds(settings.environment, "longestRequestSeconds"),
            region=settings.region,
            gateway_namespace=GATEWAY_NAMESPACE if settings.gateway is not None else None,
            tags=base.tags,
        ),
        pulumi.ResourceOptions(depends_on=[base.nodes.system, base.addons, *gateway]),
    )


def request_workers(base: Foundation, pod_autoscaler: Resources) -> None:
    """The asynchronous path: queue, bucket, and the workers that answer what is in them."""
    settings, account, cluster = base.settings, base.account, base.cluster
    if settings.worker is None:
        return
    concurrency = workers.concurrency(settings.worker, settings)
    name = request_queue(settings.cluster_name)
    bucket = request_bucket(settings.environment, account.id, account.region)
    url = queue_url(name, account.id, account.region, account.partition)
    requests = RequestQueue(
        "requests",
        RequestQueueArgs(
            account=account,
            queue_name=name,
            bucket_name=bucket,
            visibility_timeout_seconds=visibility_timeout(settings.worker.longest_request_seconds, concurrency),
            max_receive_count=settings.worker.max_receive_count,
            retention_days=settings.worker.retention_days,
            old_message_seconds=settings.worker.old_message_minutes * 60,
            alarm_topic_arn=settings.worker.alarm_topic_arn,
            result_days=settings.worker.result_days,
            protected=settings.protected,
            disposable=settings.disposable,
            tags=base.tags,
        ),
    )
    role_name = workload_role(settings.cluster_name, settings.region, "worker")
    role = WorkloadRole(
        "worker",
        WorkloadRoleArgs(
            description=f"Workers of {settings.cluster_name} answer requests",
            service_account=WORKER,
            trust=irsa_trust(cluster.oidc, WORKER),
            policy=workers.worker_policy(
                account, requests.arn, requests.bucket_arn, requests.key_arn, settings.worker.reply_queue_arns
            ),
            role_name=role_name,
            tags=base.tags,
        ),
    )
    pods = workers.Workers(
        "workers",
        workers.WorkersArgs(
            kubernetes=cluster.kubernetes,
            environment=settings.environment,
            worker=settings.worker,
            concurrency=concurrency,
            source=workers.RequestSource(
                queue_url=url,
                bucket=bucket,
                region=settings.region,
                role_arn=role_arn(account, role_name),
            ),
        ),
        pulumi.ResourceOptions(depends_on=[base.nodes, base.addons, requests, role]),
    )
    if settings.worker.autoscaler == "keda":
        WorkerScaling(
            "worker-scaling",
            WorkerScalingArgs(
                kubernetes=cluster.kubernetes,
                oidc=cluster.oidc,
                worker=settings.worker,
                concurrency=concurrency,
                queue_url=url,
                queue_arn=requests.arn,
                region=settings.region,
                tags=base.tags,
            ),
            pulumi.ResourceOptions(depends_on=[pods, *pod_autoscaler]),
        )
    pulumi.export("requestQueueUrl", requests.url)
    pulumi.export("requestBucket", bucket)


def model_routes(base: Foundation, release: Release, triton: TritonServer, gateway: Resources) -> None:
    """The way from the gateway to the models of the release."""
    settings = base.settings
    if settings.gateway is None:
        return
    routes.ModelRoutes(
        "routes",
        routes.ModelRoutesArgs(
            kubernetes=base.cluster.kubernetes,
            models=routes.routed(release.models, settings.models.serving, settings.gateway.canaries),
            pre_stop_seconds=options.drain_seconds(settings.environment, "preStopSeconds"),
            longest_request_seconds=options.drain_seconds(settings.environment, "longestRequestSeconds"),
        ),
        pulumi.ResourceOptions(depends_on=[triton, *gateway]),
    )


def triton_scaling(base: Foundation, triton: TritonServer, pod_autoscaler: Resources) -> None:
    """What owns the number of Triton's pods, where that is not this program."""
    settings = base.settings
    if settings.pod_autoscaler == "none":
        return
    TritonScaling(
        "triton-scaling",
        TritonScalingArgs(kubernetes=base.cluster.kubernetes, settings=settings, prometheus_url=_prometheus_url(settings)),
        pulumi.ResourceOptions(depends_on=[triton, *pod_autoscaler]),
    )


def parity_exporter(base: Foundation, triton: TritonServer) -> None:
    """What compares the pods of Triton, where the stack names an image for it."""
    monitoring = base.settings.monitoring
    if monitoring is None or monitoring.parity_image is None:
        return
    ParityExporter(
        "parity",
        ParityExporterArgs(kubernetes=base.cluster.kubernetes, image=monitoring.parity_image),
        pulumi.ResourceOptions(depends_on=[triton]),
    )


def warm_pods(base: Foundation, nodes: Resources) -> None:
    """Room that is held ready. `nodes`: what brings nodes with GPUs."""
    settings = base.settings
    if settings.autoscaling is None or not settings.autoscaling.warm_pods:
        return
    WarmPods(
        "warm-pods",
        WarmPodsArgs(
            kubernetes=base.cluster.kubernetes,
            server=settings.triton,
            pool=settings.triton_pool,
            replicas=settings.autoscaling.warm_pods,
        ),
        pulumi.ResourceOptions(depends_on=list(nodes)),
    )


def _prometheus_url(settings: Settings) -> str:
    own = settings.autoscaling.prometheus_url if settings.autoscaling is not None else None
    return own if own is not None else PROMETHEUS_URL
