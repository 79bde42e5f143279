"""NVIDIA Triton: the namespace and our chart, serving one immutable model release."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from infra.aws.identity import irsa_annotations
from infra.aws.lustre import LustreCache
from infra.platform import charts
from infra.platform.pod_security import RESTRICTED
from infra.serving import model_volume
from spec.gpu_pool import POOL_LABEL, gpu_resource, gpu_toleration
from spec.names import LIVE_PREFIX, RELEASES_PREFIX, TRITON, TRITON_NAMESPACE, TRITON_RELEASE
from spec.settings.gpu import GpuPool
from spec.settings.models import ModelAccess, Release
from spec.settings.triton import Triton

_CHART = "triton"


@dataclass(frozen=True)
class ModelSource:
    """Where the pods read models from.

    Plain text, not outputs: `helm.v4.Chart` renders in a preview only what is known there, and each object of the
    chart shall be seen before anything exists.
    """

    bucket: str
    region: str
    role_arn: str
    s3_endpoint: str | None
    access: ModelAccess = "s3"
    """How the pods come to what is in the bucket."""


@dataclass(frozen=True)
class TritonServerArgs:
    kubernetes: k8s.Provider
    environment: str
    server: Triton
    pool: GpuPool
    release: Release
    config_name: str | None
    """The configs of the release that the models are served with; None: each model's config.pbtxt."""
    models: ModelSource
    tracing: Tracing | None = None
    """None: the server does not trace."""
    cache: LustreCache | None = None
    """The file system that the models are read from; for `fsx-lustre` alone."""


@dataclass(frozen=True)
class Tracing:
    """Where the server sends spans to (OTLP over HTTP), and of how many requests it traces one."""

    endpoint: str
    rate: int


class TritonServer(pulumi.ComponentResource):
    """The inference server of one environment.

    Give `opts.depends_on` what its pods cannot start without: nodes, the device plugin, the model role. The Kubernetes
    objects inherit those dependencies through this component.
    """

    def __init__(self, name: str, args: TritonServerArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("triton:serving:TritonServer", name, None, opts)
        child = pulumi.ResourceOptions(parent=self, provider=args.kubernetes)
        needed: list[pulumi.Resource] = [
            k8s.core.v1.Namespace(
                f"{name}-namespace",
                metadata=k8s.meta.v1.ObjectMetaArgs(
                    name=TRITON_NAMESPACE,
                    labels=RESTRICTED,
                ),
                opts=child,
            )
        ]
        models, label = args.models, f"{name}-models"
        after_namespace = pulumi.ResourceOptions.merge(child, pulumi.ResourceOptions(depends_on=list(needed)))
        if models.access == "mountpoint":
            needed.append(
                model_volume.mounted_release(label, args.release, models.bucket, models.region, TRITON, after_namespace)
            )
        elif args.cache is not None:
            needed.append(model_volume.mounted_file_system(label, args.cache, TRITON_NAMESPACE, after_namespace))
        k8s.helm.v4.Chart(
            f"{name}-chart",
            name=TRITON_RELEASE,
            chart=charts.local_chart(_CHART),
            namespace=TRITON_NAMESPACE,
            value_yaml_files=charts.value_files(_CHART, args.environment),
            values=values(args),
            opts=pulumi.ResourceOptions.merge(child, pulumi.ResourceOptions(depends_on=needed)),
        )
        self.register_outputs({})


def model_prefixes(server: Triton) -> tuple[str, ...]:
    """The prefixes of the bucket that the pods read: while a stack turns to in-place rollouts, some read either."""
    return (RELEASES_PREFIX, LIVE_PREFIX) if server.rollout == "in-place" else (RELEASES_PREFIX,)


def values(args: TritonServerArgs) -> dict[str, Any]:
    """The chart values that follow from the stack; those that people tune are in `helm-values/triton`."""
    server = args.server
    repository, digest = server.image.split("@", maxsplit=1)
    computed: dict[str, Any] = {
        "image": {"repository": repository, "digest": digest},
        "server": _server_values(server),
        "gpu": {"count": server.gpus, "resourceName": gpu_resource(args.pool.sharing)},
        "resources": {"cpu": server.cpu, "memory": f"{server.memory_gib}Gi"},
        "modelRepository": _repository_values(args),
        "release": _release_values(args),
        "serviceAccount": {
            "name": TRITON.name,
            # What nodes mount from a file system asks for no role.
            "annotations": irsa_annotations(args.models.role_arn) if args.models.access != "fsx-lustre" else {},
        },
        "nodeSelector": {POOL_LABEL: args.pool.name},
        "tolerations": [gpu_toleration()],
    }
    if server.replicas is not None:
        computed["replicaCount"] = server.replicas
    else:
        # Not rendered at all: every `up` would undo what the autoscaler has done.
        computed["autoscaling"] = {"owner": "external"}
    if server.rollout == "in-place":
        computed["rollout"] = {"mode": server.rollout}
    if args.tracing is not None:
        computed["tracing"] = {
            "endpoint": args.tracing.endpoint,
            "rate": args.tracing.rate,
            "serviceName": f"triton-{args.environment}",
        }
    return computed


def _repository_values(args: TritonServerArgs) -> dict[str, Any]:
    models = args.models
    if models.access == "mountpoint":
        return {"volume": {"claimName": model_volume.volume_name(args.release)}}
    if models.access == "fsx-lustre":
        return {"volume": {"claimName": model_volume.LUSTRE_CLAIM, "subPath": model_volume.release_folder(args.release)}}
    in_place = args.server.rollout == "in-place"
    s3 = {
        "bucket": models.bucket,
        "prefix": LIVE_PREFIX.rstrip("/") if in_place else f"{RELEASES_PREFIX}{args.release.id}",
        "region": models.region,
    }
    if models.s3_endpoint is not None:
        s3["endpoint"] = models.s3_endpoint
    return {"s3": s3}


def _server_values(server: Triton) -> dict[str, Any]:
    values: dict[str, Any] = {"version": server.version}
    if server.response_cache_mib is not None:
        values["responseCacheBytes"] = server.response_cache_mib * 1024**2
    if server.rate_limiter_resources:
        values["rateLimiter"] = {"resources": dict(server.rate_limiter_resources)}
    return values


def _release_values(args: TritonServerArgs) -> dict[str, Any]:
    release = args.release
    values: dict[str, Any] = {"bytes": release.bytes, "models": dict(release.models)}
    if release.others:
        values["others"] = {model: list(versions) for model, versions in release.others.items()}
    if args.server.rollout == "in-place":
        return values  # which release a pod serves, and with which configs, is what the rollout has written
    values["id"] = release.id
    if args.config_name is not None:
        values["configName"] = args.config_name
    return values
