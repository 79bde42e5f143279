"""The whole system, in order, on one page."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi

from infra import account as aws_account
from infra import settings as stack_settings
from infra import subnets, zones
from infra.account import Account
from infra.addons import Addons, AddonsArgs
from infra.budget import CostGuard, CostGuardArgs
from infra.cluster import Cluster, ClusterArgs, creators_second_entry
from infra.identity import WorkloadRole, WorkloadRoleArgs, irsa_trust, model_reader_policy, role_arn
from infra.keys import EncryptionKey, EncryptionKeyArgs, logs_may_encrypt
from infra.network import Network, NetworkArgs
from infra.nodes import ClusterFacts, Nodes, NodesArgs
from infra.platform import prometheus_stack, tracing
from infra.platform.cluster_autoscaler import ClusterAutoscaler, ClusterAutoscalerArgs
from infra.platform.device_plugin import DevicePlugin, DevicePluginArgs
from infra.platform.gateway import NAMESPACE as GATEWAY_NAMESPACE
from infra.platform.gateway import InferenceGateway, InferenceGatewayArgs
from infra.platform.gpu_metrics import GpuMetrics, GpuMetricsArgs
from infra.platform.karpenter import Karpenter, KarpenterArgs
from infra.platform.keda import Keda, KedaArgs
from infra.platform.load_balancer_controller import LoadBalancerController, LoadBalancerControllerArgs
from infra.platform.monitoring import Monitoring, MonitoringArgs
from infra.platform.prometheus_adapter import PrometheusAdapter, PrometheusAdapterArgs
from infra.queue import RequestQueue, RequestQueueArgs, queue_name, queue_url, visibility_timeout
from infra.request_bucket import request_bucket_name
from infra.serving import options, routes
from infra.serving import worker as workers
from infra.serving.scaling import TritonScaling, TritonScalingArgs
from infra.serving.triton import SERVICE_ACCOUNT, ModelSource, Tracing, TritonServer, TritonServerArgs, model_prefixes
from infra.serving.warm_pods import WarmPods, WarmPodsArgs
from infra.settings import Settings, SettingsError
from infra.settings.source import stack_file
from infra.storage import ModelBucket, ModelBucketArgs, bucket_name
from infra.versions import KUBERNETES, PROJECT, TRITON_RELEASES


def main() -> None:
    """Read the stack's settings and deploy them.

    A mistake in them is for people: everything that is wrong is printed, no resource is registered, and the engine
    sees a failed program. `RunError` is the one exception that the language host shows without a traceback.
    """
    try:
        settings = stack_settings.from_pulumi()
        for warning in settings.warnings:
            pulumi.log.warn(f"{stack_file(pulumi.get_stack())}: {warning}")
        deploy(settings)
    except SettingsError as error:
        raise pulumi.RunError(str(error)) from None


def deploy(settings: Settings) -> None:
    """Register every resource of one environment and export what people ask for.

    Raises SettingsError, before the first resource, when the region does not offer what the settings ask for, or when
    the Helm values hold flags that the server does not understand.
    """
    options.check_extra_arguments(settings.environment, TRITON_RELEASES[settings.triton.version].server)
    options.check_drain(settings.environment, settings.models.serving)
    account = aws_account.current(settings.region)
    _warn_about_a_second_entry(account, settings)
    chosen_zones = _zones(settings)
    cluster_name = settings.cluster_name
    pins = KUBERNETES[settings.cluster.version]
    tags = {"project": PROJECT, "environment": settings.environment, **settings.tags}
    disposable = settings.environment in ("local", "dev") or settings.allow_destroy

    if settings.cost is not None:
        CostGuard(
            "cost",
            CostGuardArgs(
                name=f"{cluster_name}-{settings.region}",
                monthly_usd=settings.cost.monthly_usd,
                anomaly_usd=settings.cost.anomaly_usd,
                emails=settings.cost.emails,
                topic_arn=settings.cost.topic_arn,
                cost_tags={key: tags[key] for key in ("project", "environment")},
                monitored_tag=("project", tags["project"]),
                tags=tags,
            ),
        )
    logs_key = EncryptionKey(
        "logs",
        EncryptionKeyArgs(
            account=account,
            alias=f"{cluster_name}-logs",
            description=f"Logs of {cluster_name}",
            statements=(logs_may_encrypt(account, f"/aws/*/{cluster_name}/*"),),
            tags=tags,
            protected=settings.protected,
        ),
    )
    network = Network(
        "network",
        NetworkArgs(
            account=account,
            cluster_name=cluster_name,
            cidr=settings.network.cidr,
            zones=chosen_zones,
            subnets=subnets.plan(settings.network.cidr, chosen_zones),
            nat=settings.network.nat,
            endpoints=settings.network.endpoints,
            flow_log_retention_days=settings.network.flow_log_retention_days,
            logs_key_arn=logs_key.arn,
            protected=settings.protected,
            tags=tags,
        ),
    )
    cluster = Cluster(
        "cluster",
        ClusterArgs(
            account=account,
            cluster_name=cluster_name,
            kubernetes_version=settings.cluster.version,
            pins=pins,
            vpc_id=network.vpc_id,
            control_plane_subnet_ids=list(network.intra_subnet_ids.values()),
            endpoint=settings.cluster.endpoint,
            public_access_cidrs=settings.cluster.public_access_cidrs,
            admin_role_arns=settings.cluster.admin_role_arns,
            deletion_protection=settings.cluster.deletion_protection and not settings.allow_destroy,
            protected=settings.protected,
            log_retention_days=settings.cluster.log_retention_days,
            logs_key_arn=logs_key.arn,
            tags=tags,
        ),
    )
    # Nodes come after every route and endpoint and after the network plugin, and go before them.
    nodes = Nodes(
        "nodes",
        NodesArgs(
            account=account,
            cluster_name=cluster_name,
            cluster=ClusterFacts(
                name=cluster.name,
                security_group_id=cluster.security_group_id,
                kubernetes_version=settings.cluster.version,
                ami_release=pins.ami_release,
            ),
            subnet_ids=network.private_subnet_ids,
            system=settings.nodes.system,
            pools=settings.gpu.pools if settings.nodes.autoscaler != "karpenter" else (),
            autoscaled=settings.nodes.autoscaler == "cluster-autoscaler",
            tags=tags,
        ),
        pulumi.ResourceOptions(depends_on=[network, cluster]),
    )
    addons = Addons(
        "addons",
        AddonsArgs(account=account, cluster_name=cluster.name, cluster_arn=cluster.arn, pins=pins, tags=tags),
        # Not on all of them: one GPU pool that finds no capacity would leave the cluster without DNS.
        pulumi.ResourceOptions(depends_on=[nodes.system]),
    )
    models = ModelBucket(
        "models",
        ModelBucketArgs(
            account=account,
            bucket_name=bucket_name(settings.environment, account),
            key_alias=f"{cluster_name}-models",
            old_release_days=settings.models.old_release_days,
            protected=settings.protected,
            retained=settings.environment == "prod",
            disposable=disposable,
            tags=tags,
        ),
    )
    reader_name = f"{cluster_name}-{settings.region}-model-reader"
    reader = WorkloadRole(
        "model-reader",
        WorkloadRoleArgs(
            description=f"Triton of {cluster_name} reads models",
            service_account=SERVICE_ACCOUNT,
            trust=irsa_trust(cluster.oidc, SERVICE_ACCOUNT),
            policy=model_reader_policy(account, models.arn, models.key_arn, model_prefixes(settings.triton)),
            role_name=reader_name,
            tags=tags,
        ),
    )
    plugin = DevicePlugin(
        "device-plugin",
        DevicePluginArgs(kubernetes=cluster.kubernetes, sharing=[pool.sharing for pool in settings.gpu.pools]),
        pulumi.ResourceOptions(depends_on=[nodes, addons]),
    )
    monitoring = _monitoring(settings, account, cluster, nodes, addons, tags)
    node_scaler = _node_autoscaler(settings, account, cluster, network, nodes, [addons, *monitoring], tags)
    pod_scaler = _pod_autoscaler(settings, cluster, nodes, [addons, *monitoring], tags)
    gateway = _gateway(settings, account, cluster, network, addons, tags)
    if settings.tracing is not None:
        tracing.Collector(
            "collector",
            tracing.CollectorArgs(
                kubernetes=cluster.kubernetes,
                oidc=cluster.oidc,
                tracing=settings.tracing,
                serving=settings.models.serving,
                longest_request_seconds=options.drain_seconds(settings.environment, "longestRequestSeconds"),
                region=settings.region,
                gateway_namespace=GATEWAY_NAMESPACE if settings.gateway is not None else None,
                tags=tags,
            ),
            pulumi.ResourceOptions(depends_on=[nodes.system, addons, *gateway]),
        )
    release = settings.models.release
    if settings.worker is not None:
        worker_concurrency = workers.concurrency(settings.worker, settings.models.serving)
        requests_name, requests_bucket = queue_name(cluster_name), request_bucket_name(settings.environment, account)
        requests = RequestQueue(
            "requests",
            RequestQueueArgs(
                account=account,
                queue_name=requests_name,
                bucket_name=requests_bucket,
                visibility_timeout_seconds=visibility_timeout(settings.worker.longest_request_seconds, worker_concurrency),
                max_receive_count=settings.worker.max_receive_count,
                retention_days=settings.worker.retention_days,
                old_message_seconds=settings.worker.old_message_minutes * 60,
                alarm_topic_arn=settings.worker.alarm_topic_arn,
                result_days=settings.worker.result_days,
                protected=settings.protected,
                disposable=disposable,
                tags=tags,
            ),
        )
        worker_role_name = f"{cluster_name}-{settings.region}-worker"
        worker_role = WorkloadRole(
            "worker",
            WorkloadRoleArgs(
                description=f"Workers of {cluster_name} answer requests",
                service_account=workers.SERVICE_ACCOUNT,
                trust=irsa_trust(cluster.oidc, workers.SERVICE_ACCOUNT),
                policy=workers.worker_policy(
                    account, requests.arn, requests.bucket_arn, requests.key_arn, settings.worker.reply_queue_arns
                ),
                role_name=worker_role_name,
                tags=tags,
            ),
        )
        worker_pods = workers.Workers(
            "workers",
            workers.WorkersArgs(
                kubernetes=cluster.kubernetes,
                environment=settings.environment,
                worker=settings.worker,
                concurrency=worker_concurrency,
                source=workers.RequestSource(
                    queue_url=queue_url(account, requests_name),
                    bucket=requests_bucket,
                    region=settings.region,
                    role_arn=role_arn(account, worker_role_name),
                ),
            ),
            pulumi.ResourceOptions(depends_on=[nodes, addons, requests, worker_role]),
        )
        if settings.worker.scaler == "keda":
            workers.scaled_object(
                "workers",
                workers.ScaledObjectArgs(
                    kubernetes=cluster.kubernetes,
                    oidc=cluster.oidc,
                    worker=settings.worker,
                    concurrency=worker_concurrency,
                    queue_url=queue_url(account, requests_name),
                    queue_arn=requests.arn,
                    region=settings.region,
                    tags=tags,
                ),
                pulumi.ResourceOptions(depends_on=[worker_pods, *pod_scaler]),
            )
        pulumi.export("requestQueueUrl", requests.url)
        pulumi.export("requestBucket", requests_bucket)
    if release is not None:
        triton = TritonServer(
            "triton",
            TritonServerArgs(
                kubernetes=cluster.kubernetes,
                environment=settings.environment,
                server=settings.triton,
                pool=settings.triton_pool,
                release=release,
                # What `modelctl release` calls the configs that it makes for this stack.
                config_name=settings.environment if settings.models.serving else None,
                models=ModelSource(
                    bucket=bucket_name(settings.environment, account),
                    region=settings.region,
                    role_arn=role_arn(account, reader_name),
                    s3_endpoint=settings.models.s3_endpoint,
                ),
                tracing=Tracing(tracing.HTTP_ENDPOINT, settings.tracing.rate) if settings.tracing is not None else None,
            ),
            pulumi.ResourceOptions(depends_on=[nodes, *node_scaler, addons, plugin, models, reader]),
        )
        if settings.gateway is not None:
            routes.ModelRoutes(
                "routes",
                routes.ModelRoutesArgs(
                    kubernetes=cluster.kubernetes,
                    models=routes.routed(release.models, settings.models.serving, settings.gateway.canaries),
                    pre_stop_seconds=options.drain_seconds(settings.environment, "preStopSeconds"),
                    longest_request_seconds=options.drain_seconds(settings.environment, "longestRequestSeconds"),
                ),
                pulumi.ResourceOptions(depends_on=[triton, *gateway]),
            )
        if settings.triton.autoscaler != "none":
            TritonScaling(
                "triton-scaling",
                TritonScalingArgs(
                    kubernetes=cluster.kubernetes, settings=settings, prometheus_url=_prometheus_url(settings)
                ),
                pulumi.ResourceOptions(depends_on=[triton, *pod_scaler]),
            )
    if settings.autoscaling is not None and settings.autoscaling.warm_pods:
        WarmPods(
            "warm-pods",
            WarmPodsArgs(
                kubernetes=cluster.kubernetes,
                server=settings.triton,
                pool=settings.triton_pool,
                replicas=settings.autoscaling.warm_pods,
            ),
            pulumi.ResourceOptions(depends_on=[nodes, *node_scaler, plugin]),
        )
    _export(network, cluster, models, reader, account, chosen_zones, settings)


def _gateway(
    settings: Settings, account: Account, cluster: Cluster, network: Network, addons: Addons, tags: dict[str, str]
) -> list[pulumi.Resource]:
    """The gateway and what makes its load balancer; nothing where the stack has none."""
    if settings.gateway is None:
        return []
    controller = LoadBalancerController(
        "load-balancer-controller",
        LoadBalancerControllerArgs(
            kubernetes=cluster.kubernetes,
            account=account,
            oidc=cluster.oidc,
            cluster_name=settings.cluster_name,
            vpc_id=network.vpc_id,
            tags=tags,
        ),
        pulumi.ResourceOptions(depends_on=[addons]),
    )
    gateway = InferenceGateway(
        "gateway",
        InferenceGatewayArgs(
            kubernetes=cluster.kubernetes,
            gateway=settings.gateway,
            vpc_cidr=settings.network.cidr,
            routes_namespace=SERVICE_ACCOUNT.namespace,
            longest_request_seconds=options.drain_seconds(settings.environment, "longestRequestSeconds"),
            collector=tracing.ADDRESS if settings.tracing is not None else None,
            tags=tags,
        ),
        pulumi.ResourceOptions(depends_on=[controller]),
    )
    return [gateway]


def _monitoring(
    settings: Settings, account: Account, cluster: Cluster, nodes: Nodes, addons: Addons, tags: dict[str, str]
) -> list[pulumi.Resource]:
    """What watches: everything or nothing. Whoever brings a ServiceMonitor waits for it, because the kind comes with it."""
    if settings.monitoring is None:
        return []
    monitoring = Monitoring(
        "monitoring",
        MonitoringArgs(
            kubernetes=cluster.kubernetes,
            account=account,
            oidc=cluster.oidc,
            settings=settings,
            wanted=settings.monitoring,
            tags=tags,
        ),
        pulumi.ResourceOptions(depends_on=[nodes.system, addons]),
    )
    GpuMetrics(
        "gpu-metrics",
        GpuMetricsArgs(
            kubernetes=cluster.kubernetes,
            namespace=prometheus_stack.NAMESPACE,
            sharing=[pool.sharing for pool in settings.gpu.pools],
        ),
        pulumi.ResourceOptions(depends_on=[monitoring]),
    )
    return [monitoring]


def _node_autoscaler(
    settings: Settings,
    account: Account,
    cluster: Cluster,
    network: Network,
    nodes: Nodes,
    services: Sequence[pulumi.Resource],
    tags: dict[str, str],
) -> list[pulumi.Resource]:
    """What starts nodes: one thing or nothing, never two that undo each other's work.

    `services` brings the kinds that its chart makes objects of.
    """
    monitored = settings.monitoring is not None
    after = pulumi.ResourceOptions(depends_on=[nodes.system, *services])
    if settings.nodes.autoscaler == "karpenter":
        karpenter = KarpenterArgs(
            account=account,
            kubernetes=cluster.kubernetes,
            cluster_name=settings.cluster_name,
            cluster_arn=cluster.arn,
            node_role_name=nodes.role_name,
            node_role_arn=nodes.role_arn,
            security_group_id=cluster.security_group_id,
            subnet_ids=network.private_subnet_ids,
            ami_release=KUBERNETES[settings.cluster.version].ami_release,
            pools=settings.gpu.pools,
            isolated=settings.network.nat == "none",
            monitored=monitored,
            tags=tags,
        )
        return [Karpenter("karpenter", karpenter, after)]
    if settings.nodes.autoscaler == "cluster-autoscaler":
        autoscaler = ClusterAutoscalerArgs(
            account=account,
            kubernetes=cluster.kubernetes,
            oidc=cluster.oidc,
            cluster_name=settings.cluster_name,
            kubernetes_version=settings.cluster.version,
            monitored=monitored,
            tags=tags,
        )
        return [ClusterAutoscaler("cluster-autoscaler", autoscaler, after)]
    return []


def _pod_autoscaler(
    settings: Settings, cluster: Cluster, nodes: Nodes, services: Sequence[pulumi.Resource], tags: dict[str, str]
) -> list[pulumi.Resource]:
    """What scales pods, or serves the numbers for it: where nothing is scaled, nothing."""
    after = pulumi.ResourceOptions(depends_on=[nodes.system, *services])
    found: list[pulumi.Resource] = []
    if settings.triton.autoscaler == "keda" or (settings.worker is not None and settings.worker.scaler == "keda"):
        monitored = settings.monitoring is not None
        keda = KedaArgs(kubernetes=cluster.kubernetes, oidc=cluster.oidc, monitored=monitored, tags=tags)
        found.append(Keda("keda", keda, after))
    if settings.triton.autoscaler == "hpa":
        adapter = PrometheusAdapterArgs(kubernetes=cluster.kubernetes, prometheus_url=_prometheus_url(settings))
        found.append(PrometheusAdapter("prometheus-adapter", adapter, after))
    return found


def _prometheus_url(settings: Settings) -> str:
    own = settings.autoscaling.prometheus_url if settings.autoscaling is not None else None
    return own if own is not None else prometheus_stack.PROMETHEUS_URL


def _warn_about_a_second_entry(account: Account, settings: Settings) -> None:
    """Only a warning: a cluster that another role has made takes the entry."""
    role = creators_second_entry(account.caller_arn, settings.cluster.admin_role_arns)
    if role is not None:
        pulumi.log.warn(
            f"{stack_file(pulumi.get_stack())}: cluster.adminRoleArns: {role} runs this program; EKS makes the role that "
            "creates the cluster an administrator by itself and refuses a second access entry for it "
            "(pulumi/pulumi-eks#2373); before the first `pulumi up`, remove it from the list or run as another role"
        )


def _zones(settings: Settings) -> tuple[str, ...]:
    pools = [zones.PoolPlacement(pool.instance_types, pool.zones) for pool in settings.gpu.pools]
    system_types = settings.nodes.system.instance_types
    wanted = [*(instance_type for pool in pools for instance_type in pool.instance_types), *system_types]
    offering = zones.read_offering(settings.region, wanted)
    return zones.select_zones(settings.network.zones, pools, system_types, offering, stack_file(pulumi.get_stack()))


def _export(
    network: Network,
    cluster: Cluster,
    models: ModelBucket,
    reader: WorkloadRole,
    account: Account,
    chosen_zones: tuple[str, ...],
    settings: Settings,
) -> None:
    """What people and tools look up. No kubeconfig: `aws eks update-kubeconfig` makes one for whoever asks."""
    pulumi.export("clusterName", cluster.name)
    pulumi.export("region", account.region)
    pulumi.export("vpcId", network.vpc_id)
    pulumi.export("zones", list(chosen_zones))
    pulumi.export("modelBucket", models.name)
    pulumi.export("tritonRoleArn", reader.arn)
    release = settings.models.release
    pulumi.export("releaseId", release.id if release is not None else None)
