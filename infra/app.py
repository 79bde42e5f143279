"""The whole system, in order, on one page."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi

from infra import optional_sections as optional
from infra import stack_settings
from infra.aws import account as aws_account
from infra.aws import zones
from infra.aws.account import Account
from infra.aws.addons import Addons, AddonsArgs
from infra.aws.budget import CostGuard, CostGuardArgs
from infra.aws.cluster import Cluster, ClusterArgs, creators_second_entry
from infra.aws.identity import WorkloadRole, WorkloadRoleArgs, irsa_trust, model_reader_policy, role_arn
from infra.aws.keys import EncryptionKey, EncryptionKeyArgs, logs_may_encrypt
from infra.aws.network import Network, NetworkArgs
from infra.aws.nodes import ClusterFacts, Nodes, NodesArgs
from infra.aws.storage import ModelBucket, ModelBucketArgs
from infra.platform.device_plugin import DevicePlugin, DevicePluginArgs
from infra.serving import options
from infra.serving.triton import ModelSource, Tracing, TritonServer, TritonServerArgs, model_prefixes
from spec import subnets
from spec.names import OTLP_HTTP_URL, TRITON, model_bucket, workload_role
from spec.ownership import own_tags
from spec.scaling.behavior import assumptions
from spec.settings import Settings, SettingsError
from spec.stack_names import stack_file
from spec.versions import KUBERNETES, TRITON_RELEASES
from spec.wording import listed
from spec.zones import PoolPlacement, select_zones


def main() -> None:
    """Read the stack's settings and deploy them.

    A mistake in them is for people: everything that is wrong is printed, no resource is registered, and the engine
    sees a failed program. `RunError` is the one exception that the language host shows without a traceback.
    """
    try:
        settings = stack_settings.from_pulumi()
        _warn([str(warning) for warning in (*settings.warnings, *assumptions(settings))])
        deploy(settings)
    except SettingsError as error:
        raise pulumi.RunError(listed(error.source, "mistake", str(error).splitlines())) from None


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
    tags = own_tags(settings)

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
            pools=settings.gpu.pools if settings.node_autoscaler != "karpenter" else (),
            autoscaled=settings.node_autoscaler == "cluster-autoscaler",
            tags=tags,
        ),
        pulumi.ResourceOptions(depends_on=[network, cluster]),
    )
    addons = Addons(
        "addons",
        AddonsArgs(
            account=account,
            cluster_name=cluster.name,
            cluster_arn=cluster.arn,
            pins=pins,
            tags=tags,
            mountpoint=settings.models.access == "mountpoint",
            lustre=settings.models.access == "fsx-lustre",
        ),
        # Not on all of them: one GPU pool that finds no capacity would leave the cluster without DNS.
        pulumi.ResourceOptions(depends_on=[nodes.system]),
    )
    models = ModelBucket(
        "models",
        ModelBucketArgs(
            account=account,
            bucket_name=model_bucket(settings.environment, account.id, account.region),
            key_alias=f"{cluster_name}-models",
            old_release_days=settings.models.old_release_days,
            protected=settings.protected,
            retained=settings.environment == "prod",
            disposable=settings.disposable,
            tags=tags,
            read_by_fsx=settings.models.fsx is not None,
        ),
    )
    reader_name = workload_role(cluster_name, settings.region, "model-reader")
    reader = WorkloadRole(
        "model-reader",
        WorkloadRoleArgs(
            description=f"Triton of {cluster_name} reads models",
            service_account=TRITON,
            trust=irsa_trust(cluster.oidc, TRITON),
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
    base = optional.Foundation(settings, account, network, cluster, nodes, addons, tags)
    monitoring = optional.monitoring(base)
    node_autoscaler = optional.node_autoscaler(base, monitoring)
    pod_autoscaler = optional.pod_autoscaler(base, monitoring)
    gateway = optional.gateway(base)
    optional.collector(base, gateway)
    optional.request_workers(base, pod_autoscaler)
    cache = optional.model_cache(base, models, chosen_zones)
    gpu_nodes = [nodes, *node_autoscaler, plugin]
    release = settings.models.release
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
                    bucket=model_bucket(settings.environment, account.id, account.region),
                    region=settings.region,
                    role_arn=role_arn(account, reader_name),
                    s3_endpoint=settings.models.s3_endpoint,
                    access=settings.models.access,
                ),
                tracing=Tracing(OTLP_HTTP_URL, settings.tracing.rate) if settings.tracing is not None else None,
                cache=cache,
            ),
            pulumi.ResourceOptions(depends_on=[*gpu_nodes, addons, models, reader, *([cache] if cache is not None else [])]),
        )
        optional.model_routes(base, release, triton, gateway)
        optional.triton_scaling(base, triton, pod_autoscaler)
        optional.parity_exporter(base, triton)
    optional.warm_pods(base, gpu_nodes)
    _export(network, cluster, models, reader, account, chosen_zones, settings)


def _warn(warnings: Sequence[str]) -> None:
    if warnings:
        pulumi.log.warn(listed(stack_file(pulumi.get_stack()), "warning", warnings))


def _warn_about_a_second_entry(account: Account, settings: Settings) -> None:
    """Only a warning: a cluster that another role has made takes the entry."""
    role = creators_second_entry(account.caller_arn, settings.cluster.admin_role_arns)
    if role is not None:
        _warn(
            [
                f"cluster.adminRoleArns: {role} runs this program; EKS makes the role that creates the cluster an "
                "administrator by itself and refuses a second access entry for it (pulumi/pulumi-eks#2373); before the "
                "first `pulumi up`, remove it from the list or run as another role"
            ]
        )


def _zones(settings: Settings) -> tuple[str, ...]:
    pools = [PoolPlacement(pool.instance_types, pool.zones) for pool in settings.gpu.pools]
    system_types = settings.nodes.system.instance_types
    wanted = [*(instance_type for pool in pools for instance_type in pool.instance_types), *system_types]
    offering = zones.read_offering(settings.region, wanted)
    return select_zones(settings.network.zones, pools, system_types, offering, stack_file(pulumi.get_stack()))


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
