"""A release of models as a volume: mounted from the bucket by Mountpoint for Amazon S3, read-only (issue 5 point 8).

Provisioned statically, as the driver wants it: a PersistentVolume of one prefix, and the claim that is its only one. Each
release has its own, because a volume's source cannot change: pods of the old release keep theirs until they end.
"""

from __future__ import annotations

import math

import pulumi
import pulumi_kubernetes as k8s

from infra.identity import ServiceAccount
from infra.settings.model import Release
from infra.storage import RELEASES_PREFIX

_DRIVER = "s3.csi.aws.com"
# Triton's user and group (charts/triton): Mountpoint shows a file system to nobody but who mounted it, unless told so.
_USER, _GROUP = 1000, 1000


def volume_name(release: Release) -> str:
    """What the volume of a release and its claim are called."""
    return f"triton-models-{release.id}"


def mount_options(release: Release, region: str) -> list[str]:
    """What Mountpoint is told. Without the region it would ask the node, which tells no pod (hop limit 1)."""
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
    """The volume of a release and its claim, in the namespace of `reader`.

    It is read with the role of `reader`, the service account of the pods that mount it: the driver itself may read nothing.
    `opts` has the provider, and what the objects wait for: the namespace, and the driver.
    """
    named = volume_name(release)
    size = f"{max(1, math.ceil(release.bytes / 1024**3))}Gi"
    volume = k8s.core.v1.PersistentVolume(
        f"{name}-{release.id}",
        metadata=k8s.meta.v1.ObjectMetaArgs(name=named),
        spec=k8s.core.v1.PersistentVolumeSpecArgs(
            # Kubernetes wants a size; a bucket has none.
            capacity={"storage": size},
            access_modes=["ReadOnlyMany"],
            persistent_volume_reclaim_policy="Retain",
            storage_class_name="",
            claim_ref=k8s.core.v1.ObjectReferenceArgs(namespace=reader.namespace, name=named),
            mount_options=mount_options(release, region),
            csi=k8s.core.v1.CSIPersistentVolumeSourceArgs(
                driver=_DRIVER,
                # Unique in the cluster: the kubelet mounts each handle once.
                volume_handle=named,
                volume_attributes={"bucketName": bucket, "authenticationSource": "pod", "stsRegion": region},
            ),
        ),
        opts=opts,
    )
    return k8s.core.v1.PersistentVolumeClaim(
        f"{name}-{release.id}-claim",
        metadata=k8s.meta.v1.ObjectMetaArgs(name=named, namespace=reader.namespace),
        spec=k8s.core.v1.PersistentVolumeClaimSpecArgs(
            access_modes=["ReadOnlyMany"],
            # Of no class, or the cluster's default class would be asked to make a disk.
            storage_class_name="",
            volume_name=named,
            resources=k8s.core.v1.VolumeResourceRequirementsArgs(requests={"storage": size}),
        ),
        opts=pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[volume])),
    )
