"""Models as a volume, read-only: mounted by Mountpoint for Amazon S3, or from FSx for Lustre.

Provisioned statically: a PersistentVolume, and the claim that is its only one. With Mountpoint each release has its own,
because a volume's source, here a prefix, cannot change: pods of the old release keep theirs until they end. The file system
of FSx is one volume, in which each release is a folder.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as k8s

from infra.aws.lustre import LustreMount
from spec.names import RELEASES_PREFIX, ServiceAccount
from spec.settings.models import Release

_MOUNTPOINT_DRIVER = "s3.csi.aws.com"
_LUSTRE_DRIVER = "fsx.csi.aws.com"
# Triton's user and group (charts/triton): Mountpoint shows a file system to nobody but who mounted it, unless told so.
_USER, _GROUP = 1000, 1000
LUSTRE_CLAIM = "triton-models"
"""The name of the file system's volume and of its claim."""
# Kubernetes wants a size, and lets nobody change that of a claim without a class; the file system may grow.
_LUSTRE_SIZE = "1200Gi"


def volume_name(release: Release) -> str:
    """Return the name of Mountpoint's volume of a release, and of its claim."""
    return f"triton-models-{release.id}"


def mount_options(release: Release, region: str) -> list[str]:
    """Return Mountpoint's options. The region is passed explicitly: IMDS is unreachable from pods (hop limit 1)."""
    return [
        "read-only",
        f"region {region}",
        f"prefix {RELEASES_PREFIX}{release.id}/",
        f"uid={_USER}",
        f"gid={_GROUP}",
        "allow-other",
    ]


def mounted_release(
    name: str, release: Release, bucket: str, region: str, reader: ServiceAccount, opts: pulumi.ResourceOptions
) -> k8s.core.v1.PersistentVolumeClaim:
    """Register the volume of a release and its claim, in the namespace of `reader`; return the claim.

    It is read with the role of `reader`, the service account of the pods that mount it: the driver itself may read nothing.
    `opts` has the provider, and what the objects wait for: the namespace, and the driver.
    """
    named = volume_name(release)
    return _claimed(
        f"{name}-{release.id}",
        _Volume(
            named=named,
            namespace=reader.namespace,
            # Kubernetes wants a size; a bucket has none.
            size=f"{max(1, math.ceil(release.bytes / 1024**3))}Gi",
            access_mode="ReadOnlyMany",
            mount_options=mount_options(release, region),
            source=k8s.core.v1.CSIPersistentVolumeSourceArgs(
                driver=_MOUNTPOINT_DRIVER,
                # Unique in the cluster: the kubelet mounts each handle once.
                volume_handle=named,
                volume_attributes={"bucketName": bucket, "authenticationSource": "pod", "stsRegion": region},
            ),
        ),
        opts,
    )


def release_folder(release: Release) -> str:
    """Return the folder of a release in the volume of the file system."""
    return f"{RELEASES_PREFIX}{release.id}"


def mounted_file_system(
    name: str, mount: LustreMount, namespace: str, opts: pulumi.ResourceOptions
) -> k8s.core.v1.PersistentVolumeClaim:
    """Register the file system's volume and its claim, in `namespace`; return the claim.

    No role reads it: nodes that reach it mount it.

    `opts` has the provider, and what the objects wait for: the namespace, and the driver.
    """
    return _claimed(
        name,
        _Volume(
            named=LUSTRE_CLAIM,
            namespace=namespace,
            size=_LUSTRE_SIZE,
            # The driver refuses ReadOnlyMany. The mount is read-only all the same, and so is what each pod sees of it.
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


@dataclass(frozen=True)
class _Volume:
    """The differences between one volume and another."""

    named: str
    namespace: str
    size: str
    access_mode: str
    mount_options: list[str]
    source: k8s.core.v1.CSIPersistentVolumeSourceArgs


def _claimed(name: str, wanted: _Volume, opts: pulumi.ResourceOptions) -> k8s.core.v1.PersistentVolumeClaim:
    """Register a volume and its claim, of the same name, each bound to the other; return the claim."""
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
            csi=wanted.source,
        ),
        opts=opts,
    )
    return k8s.core.v1.PersistentVolumeClaim(
        f"{name}-claim",
        metadata=k8s.meta.v1.ObjectMetaArgs(name=wanted.named, namespace=wanted.namespace),
        spec=k8s.core.v1.PersistentVolumeClaimSpecArgs(
            access_modes=[wanted.access_mode],
            # Of no class, or the cluster's default class would be asked to make a disk.
            storage_class_name="",
            volume_name=wanted.named,
            resources=k8s.core.v1.VolumeResourceRequirementsArgs(requests={"storage": wanted.size}),
        ),
        opts=pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[volume])),
    )
