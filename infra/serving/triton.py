"""NVIDIA Triton: its namespace and our chart, which serves one immutable model release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from infra.aws.cluster_access import ClusterAccess
from infra.aws.identity import WorkloadRole, WorkloadRoleArgs, irsa_annotations, known_role_arn
from infra.aws.lustre import LustreMount
from infra.aws.stack import Stack
from infra.aws.storage import ModelBucket, reader_policy
from infra.platform.installed_chart import namespace
from infra.serving import model_volume
from infra.serving.local_chart import install_local_chart
from infra.serving.triton_values import longest_stream, read_drain
from spec.capacity import packs_pods
from spec.names import (
    LIVE_PREFIX,
    OTLP_HTTP_URL,
    RELEASES_PREFIX,
    TRITON_CHART,
    TRITON_NAMESPACE,
    TRITON_RELEASE,
    ServiceAccount,
)
from spec.placement import placement, resource_of
from spec.settings import Settings
from spec.settings.blue_green import SLOTS, helm_release, is_blue_green
from spec.settings.fleets import Fleet
from spec.settings.gpu import GpuPool
from spec.settings.models import Models
from spec.settings.nodes import CpuPool
from spec.settings.release import Release
from spec.settings.tracing import Tracing
from spec.settings.triton import Triton

_READER = "model-reader"


@dataclass(frozen=True)
class FleetArgs:
    """A fleet's view of the settings: `server` is `triton`, `models` has this `release`, `tracing` is None without traces.

    `mount` is the file system with the models, only for `fsx-lustre`. `name` is the Helm release. `part`: `release` lists
    only the fleet's models, and the release in the bucket may have more. `lone`: the fleet may run a single pod. `packed`:
    Karpenter fills its nodes with several pods.
    """

    server: Triton
    pool: GpuPool | CpuPool
    models: Models
    release: Release
    tracing: Tracing | None = None
    mount: LustreMount | None = None
    name: str = TRITON_RELEASE
    part: bool = False
    lone: bool = False
    packed: bool = False

    @classmethod
    def of(cls, fleet: Fleet[Settings], settings: Settings, mount: LustreMount | None = None) -> FleetArgs:
        """Return the arguments of one fleet of the settings. The stack has a release."""
        stack, release = fleet.stack, fleet.stack.models.release
        assert release is not None
        part = fleet.keys is not None
        # A candidate raises the minimum temporarily, which must not replace the pods of either release.
        lone = (fleet.file or stack).fewest_pods <= 1
        nodes = stack.triton_nodes
        packed = packs_pods(settings, nodes)
        return cls(
            stack.triton, nodes, stack.models, release, stack.tracing, mount, fleet.release, part, lone=lone, packed=packed
        )

    @property
    def account(self) -> ServiceAccount:
        """Return the service account of the fleet's pods."""
        return ServiceAccount(TRITON_NAMESPACE, self.name)


class TritonServer(pulumi.ComponentResource):
    """The inference server of one environment, in one namespace: one fleet of pods or several.

    `opts.depends_on` has to name the prerequisites of its pods: nodes, the device plugin, the model role. The Kubernetes
    objects inherit these dependencies through this component.
    """

    def __init__(
        self, name: str, cluster: ClusterAccess, fleets: Sequence[FleetArgs], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("triton:serving:TritonServer", name, None, opts)
        stack, label = cluster.stack, f"{name}-models"
        needed: list[pulumi.Resource] = [
            namespace(f"{name}-namespace", TRITON_NAMESPACE, "restricted", cluster.in_cluster(self))
        ]
        after_namespace = cluster.in_cluster(self, *needed)
        # The volume holds the whole release, whatever models a fleet serves. A mount uses the role that all fleets have.
        args = fleets[0]
        if args.models.access == "mountpoint":
            needed += [
                model_volume.mounted_release(label, release, stack.model_bucket, stack.region, args.account, after_namespace)
                for release in {fleet.release.id: fleet.release for fleet in fleets}.values()
            ]
        elif args.mount is not None:
            needed.append(model_volume.mounted_file_system(label, args.mount, TRITON_NAMESPACE, after_namespace))
        else:
            needed += _node_caches(name, fleets, after_namespace)
        after = cluster.in_cluster(self, *needed)
        for fleet in fleets:
            computed = values(stack, fleet)
            install_local_chart(f"{fleet.name}-chart", cluster, TRITON_CHART, fleet.name, fleet.account, computed, after)
        self.register_outputs({})


def _node_caches(name: str, fleets: Sequence[FleetArgs], opts: pulumi.ResourceOptions) -> list[pulumi.Resource]:
    """Register the volume of each pool with a node cache, once for all fleets on it.

    Its name is the pool's, with and without fleets. A new resource with another name for the same object would be deleted
    last.
    """
    pools = {fleet.pool.name: fleet.pool for fleet in fleets if isinstance(fleet.pool, GpuPool)}
    caches = [(pool, pool.model_cache_gib) for pool in pools.values() if pool.model_cache_gib is not None]
    return [
        model_volume.node_cache(f"{name}-cache-{pool.name}", pool, size, TRITON_NAMESPACE, opts) for pool, size in caches
    ]


def model_reader(name: str, cluster: ClusterAccess, models: ModelBucket, settings: Settings) -> WorkloadRole:
    """Register the role with which the pods of all fleets read models."""
    stack = cluster.stack
    first, *others = reader_accounts(settings)
    return WorkloadRole(
        name,
        cluster,
        WorkloadRoleArgs(
            description=f"Triton of {stack.cluster_name} reads models",
            service_account=ServiceAccount(TRITON_NAMESPACE, first),
            identity="irsa",
            others=tuple(others),
            policy=reader_policy(stack.account, models.arn, models.key_arn, model_prefixes(settings.triton)),
            purpose=_READER,
        ),
    )


def reader_accounts(settings: Settings) -> list[str]:
    """Return the service accounts of pods that read models.

    With blue-green these are always the accounts of both slots, because a changed role takes time to propagate.
    """
    if is_blue_green(settings):
        return [helm_release(slot) for slot in SLOTS]
    return [fleet.release for fleet in settings.each_fleet]


def model_prefixes(server: Triton) -> tuple[str, ...]:
    """Return the bucket prefixes that the pods read. While a stack changes to in-place rollouts, pods read both."""
    return (RELEASES_PREFIX, LIVE_PREFIX) if server.rollout == "in-place" else (RELEASES_PREFIX,)


def values(stack: Stack, args: FleetArgs) -> dict[str, Any]:
    """Return the chart values computed from the stack; user-defined values are in `helm-values/triton`.

    They are plain text, not outputs, because `helm.v4.Chart` renders only known values in a preview, and a preview has to
    show all objects of the chart.
    """
    server = args.server
    repository, digest = server.image.split("@", maxsplit=1)
    role_arn = known_role_arn(stack, _READER)
    computed: dict[str, Any] = {
        "image": {"repository": repository, "digest": digest},
        "server": _server_values(server),
        "gpu": {"count": server.gpus, "resourceName": resource_of(args.pool)},
        "resources": {"cpu": server.cpu, "memory": f"{server.memory_gib}Gi"},
        "modelRepository": _repository_values(stack, args),
        "release": _release_values(stack, args),
        "serviceAccount": {
            "name": args.account.name,
            # Nodes mount the file system without a role.
            "annotations": irsa_annotations(role_arn) if args.models.access != "fsx-lustre" else {},
        },
        **placement(args.pool),
    }
    if (instances := args.models.cpu_instances) > 1:
        computed["server"]["cpuInstances"] = instances
    if server.replicas is not None:
        computed["replicaCount"] = server.replicas
    else:
        # Replicas are not rendered; otherwise every `up` would reset the autoscaler's number.
        computed["autoscaling"] = {"owner": "external"}
    if isinstance(args.pool, GpuPool) and args.pool.sharing.strategy == "mps":
        # The device plugin mounts the MPS daemon's /dev/shm, which CUDA requires
        # (docs/facts/gpu-nodes.md#shared-memory-under-mps).
        computed["shm"] = {"enabled": False}
    if args.packed:
        # If pods preferred separate hosts, each would get its own node: docs/facts/scaling.md#preferences-of-pods.
        computed["spread"] = {"host": ""}
        if args.lone:
            # No disruption budget protects a single pod, and Karpenter would remove it to save a node. A newer AMI, for
            # which the NodePool has a terminationGracePeriod, is still applied
            # (https://karpenter.sh/v1.14/concepts/disruption/). A disruption budget of 0 would also block `kubectl drain`
            # and upgrades of node groups while it exists.
            computed["podAnnotations"] = {"karpenter.sh/do-not-disrupt": "true"}
    if server.rollout == "in-place":
        computed["rollout"] = {"mode": server.rollout}
    if longest_stream(args.models.serving):
        drain = read_drain(stack.environment, args.models.serving)
        computed["drain"] = {"longestRequestSeconds": drain.longest_request_seconds}
    if builds := args.models.engine_builds(server.gpus):
        computed["startup"] = {"engines": builds}
    if args.tracing is not None:
        computed["tracing"] = {
            "endpoint": OTLP_HTTP_URL,
            "serviceName": stack.cluster_name,
        }
    return computed


def _repository_values(stack: Stack, args: FleetArgs) -> dict[str, Any]:
    models = args.models
    if models.access == "mountpoint":
        return {"volume": {"claimName": model_volume.volume_name(args.release)}}
    if models.access == "fsx-lustre":
        return {"volume": {"claimName": model_volume.LUSTRE_CLAIM, "subPath": model_volume.release_folder(args.release)}}
    in_place = args.server.rollout == "in-place"
    s3 = {
        "bucket": stack.model_bucket,
        "prefix": LIVE_PREFIX.rstrip("/") if in_place else f"{RELEASES_PREFIX}{args.release.id}",
        "region": stack.region,
    }
    if models.s3_endpoint is not None:
        s3["endpoint"] = models.s3_endpoint
    if models.fetcher is not None:
        fetch: dict[str, Any] = {"image": models.fetcher.image}
        if models.signers:
            fetch["signers"] = "\n".join(models.signers)
        if isinstance(args.pool, GpuPool) and args.pool.model_cache_gib is not None:
            fetch["cache"] = {"claimName": model_volume.node_cache_name(args.pool), "gib": args.pool.model_cache_gib}
        return {"s3": s3, "fetch": fetch}
    return {"s3": s3}


def _server_values(server: Triton) -> dict[str, Any]:
    values: dict[str, Any] = {"version": server.version}
    if server.response_cache_mib is not None:
        values["responseCacheBytes"] = server.response_cache_mib * 1024**2
    if server.rate_limiter_resources:
        values["rateLimiter"] = {"resources": dict(server.rate_limiter_resources)}
    if server.openai is not None:
        values["openai"] = {"tokenizer": server.openai.tokenizer}
    return values


def _release_values(stack: Stack, args: FleetArgs) -> dict[str, Any]:
    release = args.release
    values: dict[str, Any] = {"bytes": release.bytes, "models": dict(release.models)}
    if args.part:
        values["part"] = True
    if release.others:
        values["others"] = {model: list(versions) for model, versions in release.others.items()}
    if args.server.rollout == "in-place":
        return values  # the rollout itself writes the pod's release and configs
    values["id"] = release.id
    if args.models.serving and args.server.openai is None:
        # The name of the configs that `modelctl release` creates for this stack; otherwise each model's config.pbtxt is
        # used.
        values["configName"] = stack.name
    return values
