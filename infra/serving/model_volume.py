"""Volumes of models: a read-only release on Mountpoint for Amazon S3 or FSx for Lustre, or a shared cache on each node.

They are provisioned statically: a PersistentVolume, and a claim that is bound to it. With Mountpoint each release has its
own volume, because a volume's source, here a prefix, cannot change; pods of the old release keep their volume until they
terminate. The FSx file system is one volume with a folder for each release.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as k8s

from infra.aws.lustre import LustreMount
from spec.names import MODEL_CACHE_PATH, RELEASES_PREFIX, TRITON_USER, ServiceAccount
from spec.settings.gpu import GpuPool
from spec.settings.release import Release

_MOUNTPOINT_DRIVER = "s3.csi.aws.com"
_LUSTRE_DRIVER = "fsx.csi.aws.com"
LUSTRE_CLAIM = "triton-models"
"""The name of the file system's volume and of its claim."""
# Kubernetes requires a size, and the size of a claim without a class cannot be changed; the file system itself may grow.
_LUSTRE_SIZE = "1200Gi"


def volume_name(release: Release) -> str:
    """Return the name of a release's Mountpoint volume and of its claim."""
    return f"triton-models-{release.label}"


def mount_options(release: Release, region: str) -> list[str]:
    """Return Mountpoint's options. The region is passed explicitly, because pods cannot reach IMDS (hop limit 1).

    By default Mountpoint shows a file system only to the user who mounted it, so `allow-other` is set.
    """
    return [
        "read-only",
        f"region {region}",
        f"prefix {RELEASES_PREFIX}{release.id}/",
        f"uid={TRITON_USER}",
        f"gid={TRITON_USER}",
        "allow-other",
    ]


def mounted_release(
    name: str, release: Release, bucket: str, region: str, reader: ServiceAccount, opts: pulumi.ResourceOptions
) -> k8s.core.v1.PersistentVolumeClaim:
    """Register the volume of a release and its claim in the namespace of `reader`. Return the claim.

    It is read with the role of `reader`, the service account of the pods that mount it; the driver itself has no
    permissions. `opts` has the provider and the prerequisites: the namespace and the driver.
    """
    named = volume_name(release)
    return _claimed(
        f"{name}-{release.label}",
        _Volume(
            named=named,
            namespace=reader.namespace,
            # Kubernetes requires a size; a bucket has none.
            size=f"{max(1, math.ceil(release.bytes / 1024**3))}Gi",
            access_mode="ReadOnlyMany",
            mount_options=mount_options(release, region),
            source=k8s.core.v1.CSIPersistentVolumeSourceArgs(
                driver=_MOUNTPOINT_DRIVER,
                # Unique in the cluster, because the kubelet mounts each handle once.
                volume_handle=named,
                volume_attributes={"bucketName": bucket, "authenticationSource": "pod", "stsRegion": region},
            ),
        ),
        opts,
    )


def release_folder(release: Release) -> str:
    """Return the folder of a release in the file system's volume."""
    return f"{RELEASES_PREFIX}{release.id}"


def mounted_file_system(
    name: str, mount: LustreMount, namespace: str, opts: pulumi.ResourceOptions
) -> k8s.core.v1.PersistentVolumeClaim:
    """Register the file system's volume and its claim in `namespace`, and return the claim.

    No role is needed, because nodes that reach the file system mount it. `opts` has the provider and the prerequisites: the
    namespace and the driver.
    """
    return _claimed(
        name,
        _Volume(
            named=LUSTRE_CLAIM,
            namespace=namespace,
            size=_LUSTRE_SIZE,
            # The driver refuses ReadOnlyMany. The mount is still read-only, and so are the pods' mounts.
            access_mode="ReadWriteMany",
            mount_options=["ro"],
            source=k8s.core.v1.CSIPersistentVolumeSourceArgs(
                driver=_LUSTRE_DRIVER,
                volume_handle=mount.file_system_id,
                volume_attributes={"dnsname": mount.dns_name, "mountname": mount.mount_name},
            ),
        ),
        opts,
    )


def node_cache_name(pool: GpuPool) -> str:
    """Return the name of the volume of a pool's shared node cache, and of its claim."""
    return f"triton-model-cache-{pool.name}"


def node_cache(
    name: str, pool: GpuPool, size_gib: int, namespace: str, opts: pulumi.ResourceOptions
) -> k8s.core.v1.PersistentVolumeClaim:
    """Register the cache folder of each node as one volume and its claim, and return the claim.

    The namespace's pods must not use host paths directly (restricted), so a volume names the path. The volume is bound to no
    node: on each node it is that node's own folder.
    """
    return _claimed(
        name,
        _Volume(
            named=node_cache_name(pool),
            namespace=namespace,
            size=f"{size_gib}Gi",
            access_mode="ReadWriteMany",
            mount_options=None,
            # A node that started before its pool had a cache lacks the folder. Its pods wait, and their Event gives the
            # reason.
            source=k8s.core.v1.HostPathVolumeSourceArgs(path=MODEL_CACHE_PATH, type="Directory"),
        ),
        opts,
    )


@dataclass(frozen=True)
class _Volume:
    """The parameters that differ between volumes."""

    named: str
    namespace: str
    size: str
    access_mode: str
    mount_options: list[str] | None
    source: k8s.core.v1.CSIPersistentVolumeSourceArgs | k8s.core.v1.HostPathVolumeSourceArgs


def _claimed(name: str, wanted: _Volume, opts: pulumi.ResourceOptions) -> k8s.core.v1.PersistentVolumeClaim:
    """Register a volume and a claim with the same name, bound to each other. Return the claim."""
    volume = k8s.core.v1.PersistentVolume(
        name,
        metadata=k8s.meta.v1.ObjectMetaArgs(name=wanted.named),
        spec=k8s.core.v1.PersistentVolumeSpecArgs(
            capacity={"storage": wanted.size},
            access_modes=[wanted.access_mode],
            persistent_volume_reclaim_policy="Retain",
            storage_class_name="",
            claim_ref=k8s.core.v1.ObjectReferenceArgs(namespace=wanted.namespace, name=wanted.named),
            mount_options=wanted.mount_options,
            csi=wanted.source if isinstance(wanted.source, k8s.core.v1.CSIPersistentVolumeSourceArgs) else None,
            host_path=wanted.source if isinstance(wanted.source, k8s.core.v1.HostPathVolumeSourceArgs) else None,
        ),
        opts=opts,
    )
    return k8s.core.v1.PersistentVolumeClaim(
        f"{name}-claim",
        metadata=k8s.meta.v1.ObjectMetaArgs(name=wanted.named, namespace=wanted.namespace),
        spec=k8s.core.v1.PersistentVolumeClaimSpecArgs(
            access_modes=[wanted.access_mode],
            # No class, because the cluster's default class would create a disk.
            storage_class_name="",
            volume_name=wanted.named,
            resources=k8s.core.v1.VolumeResourceRequirementsArgs(requests={"storage": wanted.size}),
        ),
        opts=pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[volume])),
    )
