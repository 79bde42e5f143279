"""Entry point and order of the whole deployment."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi

from infra import stack_settings
from infra.aws import account as aws_account
from infra.aws.account import Account
from infra.aws.addons import install_addons
from infra.aws.budget import CostGuard
from infra.aws.cluster import Cluster, ClusterArgs, creators_second_entry
from infra.aws.cluster_access import ClusterAccess
from infra.aws.existing import Existing, look_up
from infra.aws.existing_cluster import ExistingCluster
from infra.aws.identity import WorkloadRole
from infra.aws.keys import EncryptionKey, logs_key
from infra.aws.lustre import model_cache
from infra.aws.network import Network, NetworkArgs
from infra.aws.nodes import Nodes
from infra.aws.queue import RequestQueue
from infra.aws.role import require_boundary
from infra.aws.runner import GithubRunner
from infra.aws.stack import Stack
from infra.aws.storage import ModelBucket
from infra.aws.zones import choose_zones
from infra.platform.autoscalers import install_node_autoscaler, install_pod_autoscaler
from infra.platform.container_insights import install_container_insights
from infra.platform.container_logs import install_container_logs
from infra.platform.device_plugin import DevicePlugin
from infra.platform.gateway import GRPC_LISTENER, HTTP_LISTENER, install_gateway
from infra.platform.gateway import ports as gateway_ports
from infra.platform.monitoring import install_monitoring
from infra.platform.tracing import install_collector
from infra.platform.viewers import ViewAccess
from infra.serving import triton_values
from infra.serving.inference import serve_models
from infra.serving.request_path import answer_requests
from infra.serving.routed_model import routed
from infra.serving.routes import client_rates
from infra.serving.triton import model_reader
from infra.serving.warm_pods import keep_nodes_warm
from spec import helm_value_rules
from spec.names import GATEWAY, GATEWAY_NAMESPACE, TRITON_HTTP_URL
from spec.scaling.behavior import assumptions
from spec.settings import Settings, SettingsError
from spec.settings.blue_green import is_blue_green
from spec.stack_names import stack_file
from spec.wording import listed


def main() -> None:
    """Read the stack's settings and deploy them.

    If the settings have problems, print all of them and register no resource; the engine sees a failed program.
    """
    try:
        settings = stack_settings.from_pulumi()
        _warn([str(warning) for warning in (*settings.warnings, *assumptions(settings))])
        deploy(settings)
    except SettingsError as error:
        stack_settings.refuse(error.source, str(error).splitlines())


def deploy(settings: Settings) -> None:
    """Register every resource of one environment and export the stack's outputs.

    Raises SettingsError before the first resource if the region lacks required instances, or an existing VPC or cluster does
    not meet the requirements. It also raises SettingsError if the Helm values have flags that the server does not support.
    """
    helm_value_rules.check(settings)
    drain = triton_values.read_drain(settings.environment, settings.models.serving)
    account = aws_account.current(settings.region)
    _warn_about_a_second_entry(account, settings)
    file = stack_file(pulumi.get_stack())
    zones, control_plane_zones = choose_zones(settings, file)
    existing = look_up(settings, file)
    stack = Stack.of(settings, account)
    require_boundary(stack, file)

    # AWS: network, cluster with its nodes and add-ons, models
    if settings.cost is not None:
        CostGuard("cost", stack, settings.cost)
    cluster, logs = _cluster(settings, stack, existing, zones, control_plane_zones)
    # Nodes are created after every route, endpoint and the network plugin, and deleted before them.
    nodes = Nodes("nodes", cluster, settings, after=[*cluster.network.ready, *cluster.ready])
    # Depend only on the system nodes: a GPU pool without capacity would otherwise leave the cluster without DNS.
    addons = install_addons(cluster, settings, after=[nodes.system])
    models = ModelBucket("models", stack, settings.models)
    reader = model_reader("model-reader", cluster, models, settings)
    cache = model_cache(cluster, settings, models, zones)

    # Platform: in-cluster components that the workloads need. The stack configures all of them but the device plugin.
    if settings.cluster.view_role_arns:
        ViewAccess("viewers", cluster)
    ready = [nodes.system, *addons]
    after_nodes = pulumi.ResourceOptions(depends_on=[nodes, *addons])
    plugin = [DevicePlugin("device-plugin", cluster, settings.gpu.pools, after_nodes)] if settings.gpu.pools else []
    install_container_logs(cluster, settings, logs, after=ready)
    install_container_insights(cluster, settings, logs, after=ready)
    monitoring = install_monitoring(cluster, settings, after=ready)
    node_autoscaler = install_node_autoscaler(cluster, settings, nodes, after=[*ready, *monitoring])
    pod_autoscaler = install_pod_autoscaler(cluster, settings, after=[*ready, *monitoring])
    longest = drain.longest_request_seconds
    gateway = install_gateway(cluster, settings, longest_request_seconds=longest, after=addons)
    answer = triton_values.longest_answer(settings.environment, settings.models.serving)
    install_collector(cluster, settings, longest_answer_seconds=answer, after=[*ready, *gateway])

    # Serving: inference and asynchronous requests
    worker_nodes = node_autoscaler if settings.nodes.cpu is not None else []
    requests = answer_requests(cluster, settings, pod_autoscaler=pod_autoscaler, after=[nodes, *addons, *worker_nodes])
    gpu_nodes = [nodes, *node_autoscaler, *plugin]
    serve_models(
        cluster,
        settings,
        drain,
        cache=cache,
        gateway=gateway,
        pod_autoscaler=pod_autoscaler,
        requests=requests,
        models=models,
        after=[*gpu_nodes, *addons, models, reader],
    )
    keep_nodes_warm(cluster, settings, after=gpu_nodes)

    _export(settings, cluster, zones, models, reader, requests)


def _cluster(
    settings: Settings,
    stack: Stack,
    existing: Existing,
    zones: tuple[str, ...],
    control_plane_zones: tuple[str, ...],
) -> tuple[ClusterAccess, EncryptionKey | None]:
    """Register the network and the cluster unless they exist. Register the key of the log groups if there are any."""
    if existing.cluster is not None and existing.network is not None:
        cluster = ExistingCluster("cluster", stack, existing.cluster, existing.network).access
        return cluster, logs_key("logs", stack) if settings.logs is not None else None
    logs = logs_key("logs", stack)
    network = existing.network
    if network is None:
        network = Network("network", NetworkArgs(stack, settings.network, zones, control_plane_zones, logs.arn)).access
    destroyable = settings.allow_destroy
    new = ClusterArgs(stack, settings.cluster, network, logs.arn, allow_destroy=destroyable, today=settings.today)
    cluster = Cluster("cluster", new).access
    inside = settings.cluster.api_access
    if inside is not None and inside.runner is not None:
        days = settings.cluster.log_retention_days
        GithubRunner("runner", cluster, inside.runner, kms_key_arn=logs.arn, retention_days=days)
    return cluster, logs


def _export(
    settings: Settings,
    cluster: ClusterAccess,
    zones: Sequence[str],
    models: ModelBucket,
    reader: WorkloadRole,
    requests: RequestQueue | None,
) -> None:
    """Export the outputs for users and tools. There is no kubeconfig, because `aws eks update-kubeconfig` creates one."""
    release, stack = settings.models.release, cluster.stack
    pulumi.export("clusterName", cluster.name)
    pulumi.export("apiReachedBy", list(settings.cluster.reached_by))
    pulumi.export("region", stack.region)
    pulumi.export("vpcId", cluster.vpc_id)
    pulumi.export("zones", list(zones))
    pulumi.export("modelBucket", models.name)
    pulumi.export("tritonRoleArn", reader.arn)
    pulumi.export("releaseId", release.id if release is not None else None)
    if release is not None and settings.fleets is None and not is_blue_green(settings):
        pulumi.export("inferenceUrl", TRITON_HTTP_URL)
    elif release is not None:
        pulumi.export("inferenceUrls", {fleet.name: fleet.http_url for fleet in settings.each_fleet})
    if settings.gateway is not None:
        # The controller creates the load balancer after `up`, so only the cluster knows its name.
        get = f"kubectl --namespace {GATEWAY_NAMESPACE} get gateway {GATEWAY}"
        domain, ports = settings.gateway.domain, gateway_ports(settings.gateway)
        rates = client_rates(routed(settings.models, settings.gateway, settings.each_fleet), settings.gateway.replicas)
        if rates:
            pulumi.export("clientRates", rates)
        if domain is not None:
            pulumi.export("gatewayUrl", f"https://{domain.name}:{ports[HTTP_LISTENER]}".removesuffix(":443"))
            pulumi.export("gatewayGrpc", f"{domain.name}:{ports[GRPC_LISTENER]}")
        pulumi.export("gatewayAddressCommand", f"{get} --output jsonpath='{{.status.addresses[0].value}}'")
    if requests is not None:
        pulumi.export("requestQueueUrl", requests.url)
        pulumi.export("requestBucket", stack.request_bucket)


def _warn(warnings: Sequence[str]) -> None:
    if warnings:
        pulumi.log.warn(listed(stack_file(pulumi.get_stack()), "warning", warnings))


def _warn_about_a_second_entry(account: Account, settings: Settings) -> None:
    """Warn only, because a cluster that another role created accepts the entry."""
    if settings.cluster.existing is not None:
        return
    role = creators_second_entry(account.caller_arn, settings.cluster.admin_role_arns)
    if role is not None:
        _warn(
            [
                f"cluster.adminRoleArns: {role} runs this program; EKS makes the role that creates the cluster an "
                "administrator by itself and refuses a second access entry for it (pulumi/pulumi-eks#2373); before the "
                "first `pulumi up`, remove it from the list or run as another role"
            ]
        )
