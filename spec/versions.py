"""Pinned versions of Kubernetes and Triton. Renovate reads the comments (renovate.json).

It pins EKS add-ons and the node AMI per Kubernetes version, and lists the Triton releases that this platform accepts.
Third-party charts are in `spec/charts.py`. The stack file selects among the pins (`cluster.version`, `triton.version`).

The add-on and AMI versions are real ones, as published by AWS (September 2026: docs/facts/eks.md#add-ons-and-node-images;
1.36: docs/facts/eks.md#kubernetes-136), but which of them a region still offers is only known in the account. Confirm before
the first `up` with

    aws eks describe-addon-versions --kubernetes-version 1.35 --addon-name vpc-cni
    aws eks describe-cluster-versions
    aws ssm get-parameter \
        --name /aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/nvidia/recommended/release_version

The digest of an image is deliberately not here: it belongs to the mirror of each account and lives in the stack file
(`triton.image`); see `example_digest`.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from spec.stack_file import PROJECT as PROJECT


@dataclass(frozen=True)
class SupportWindow:
    """The end of EKS support for a Kubernetes minor version (days in UTC).

    Source: EKS release calendar (docs/facts/eks.md#support-calendar).
    """

    standard_until: date
    extended_until: date


KUBERNETES_SUPPORT: Mapping[str, SupportWindow] = {
    "1.31": SupportWindow(date(2025, 11, 26), date(2026, 11, 26)),
    "1.32": SupportWindow(date(2026, 3, 23), date(2027, 3, 23)),
    "1.33": SupportWindow(date(2026, 7, 29), date(2027, 7, 29)),
    "1.34": SupportWindow(date(2026, 12, 2), date(2027, 12, 2)),
    "1.35": SupportWindow(date(2027, 3, 27), date(2028, 3, 27)),
    "1.36": SupportWindow(date(2027, 8, 2), date(2028, 8, 2)),
    "1.37": SupportWindow(date(2027, 12, 1), date(2028, 12, 1)),
}


def support_type(kubernetes: str, today: date) -> str:
    """Return the EKS upgrade policy in its API's form: STANDARD upgrades the cluster at the end of standard support.

    After that day a cluster of the version needs EXTENDED, at six times the price.
    """
    return "STANDARD" if today < KUBERNETES_SUPPORT[kubernetes].standard_until else "EXTENDED"


@dataclass(frozen=True)
class KubernetesPins:
    """The pinned versions for clusters of one Kubernetes version.

    `addons` maps EKS add-ons to versions. `ami_release` is the release of the AL2023 node AMIs, the same for standard and
    NVIDIA. Renovate updates its date. A developer adds the patch version of Kubernetes and the driver, which the tags of
    awslabs/amazon-eks-ami lack. `nvidia_driver` is the driver in the NVIDIA variant of that release.
    """

    addons: Mapping[str, str]
    ami_release: str
    nvidia_driver: str


DEFAULT_KUBERNETES = "1.35"
"""The version of new stacks. Three add-on pins of 1.36 have not been seen on a cluster (docs/facts/eks.md#kubernetes-136).

1.37 has no pins: no public source names its kube-proxy, and Karpenter 1.14.1 supports 1.36 at most
(docs/facts/eks.md#kubernetes-137).
"""
KUBERNETES: Mapping[str, KubernetesPins] = {
    "1.34": KubernetesPins(
        addons={
            # renovate: eksAddonsFilter={"kubernetesVersion":"1.34","addonName":"vpc-cni"}
            "vpc-cni": "v1.23.1-eksbuild.1",
            # renovate: eksAddonsFilter={"kubernetesVersion":"1.34","addonName":"coredns"}
            "coredns": "v1.13.2-eksbuild.24",
            # renovate: eksAddonsFilter={"kubernetesVersion":"1.34","addonName":"kube-proxy"}
            "kube-proxy": "v1.34.6-eksbuild.25",
            # renovate: eksAddonsFilter={"kubernetesVersion":"1.34","addonName":"aws-ebs-csi-driver"}
            "aws-ebs-csi-driver": "v1.66.0-eksbuild.1",
            # renovate: eksAddonsFilter={"kubernetesVersion":"1.34","addonName":"metrics-server"}
            "metrics-server": "v0.9.0-eksbuild.11",
            # Installed if `models.access` is mountpoint. The version is from the driver's chart.
            # renovate: eksAddonsFilter={"kubernetesVersion":"1.34","addonName":"aws-mountpoint-s3-csi-driver"}
            "aws-mountpoint-s3-csi-driver": "v2.7.0-eksbuild.1",
            # Installed if `models.access` is fsx-lustre. The version is the driver's own release of April 2026; not
            # confirmed that EKS has it.
            # renovate: eksAddonsFilter={"kubernetesVersion":"1.34","addonName":"aws-fsx-csi-driver"}
            "aws-fsx-csi-driver": "v1.9.0-eksbuild.1",
            # Installed with `logs.containerInsights`. Other users report that EKS has it; not checked here.
            # renovate: eksAddonsFilter={"kubernetesVersion":"1.34","addonName":"amazon-cloudwatch-observability"}
            "amazon-cloudwatch-observability": "v6.4.0-eksbuild.1",
            # renovate: eksAddonsFilter={"kubernetesVersion":"1.34","addonName":"eks-pod-identity-agent"}
            "eks-pod-identity-agent": "v1.3.10-eksbuild.3",
            # renovate: eksAddonsFilter={"kubernetesVersion":"1.34","addonName":"eks-node-monitoring-agent"}
            "eks-node-monitoring-agent": "v1.7.0-eksbuild.1",
        },
        # renovate: amiOf=awslabs/amazon-eks-ami
        ami_release="1.34.9-20260801",
        nvidia_driver="580.159.03",
    ),
    "1.35": KubernetesPins(
        addons={
            # renovate: eksAddonsFilter={"kubernetesVersion":"1.35","addonName":"vpc-cni"}
            "vpc-cni": "v1.23.1-eksbuild.1",
            # renovate: eksAddonsFilter={"kubernetesVersion":"1.35","addonName":"coredns"}
            "coredns": "v1.14.6-eksbuild.4",
            # renovate: eksAddonsFilter={"kubernetesVersion":"1.35","addonName":"kube-proxy"}
            "kube-proxy": "v1.35.3-eksbuild.29",
            # renovate: eksAddonsFilter={"kubernetesVersion":"1.35","addonName":"aws-ebs-csi-driver"}
            "aws-ebs-csi-driver": "v1.66.0-eksbuild.1",
            # renovate: eksAddonsFilter={"kubernetesVersion":"1.35","addonName":"metrics-server"}
            "metrics-server": "v0.9.0-eksbuild.11",
            # Installed if `models.access` is mountpoint.
            # renovate: eksAddonsFilter={"kubernetesVersion":"1.35","addonName":"aws-mountpoint-s3-csi-driver"}
            "aws-mountpoint-s3-csi-driver": "v2.7.0-eksbuild.1",
            # Installed if `models.access` is fsx-lustre.
            # renovate: eksAddonsFilter={"kubernetesVersion":"1.35","addonName":"aws-fsx-csi-driver"}
            "aws-fsx-csi-driver": "v1.9.0-eksbuild.1",
            # Installed with `logs.containerInsights`. Other users report that EKS has it; not checked here.
            # renovate: eksAddonsFilter={"kubernetesVersion":"1.35","addonName":"amazon-cloudwatch-observability"}
            "amazon-cloudwatch-observability": "v6.4.0-eksbuild.1",
            # renovate: eksAddonsFilter={"kubernetesVersion":"1.35","addonName":"eks-pod-identity-agent"}
            "eks-pod-identity-agent": "v1.4.0-eksbuild.2",
            # renovate: eksAddonsFilter={"kubernetesVersion":"1.35","addonName":"eks-node-monitoring-agent"}
            "eks-node-monitoring-agent": "v1.7.0-eksbuild.1",
        },
        # renovate: amiOf=awslabs/amazon-eks-ami
        # Not v20261003: its kernel 6.12.110 panics on some instance types with Kubernetes 1.31 to 1.35.
        ami_release="1.35.7-20260911",
        nvidia_driver="580.178.04",
    ),
    "1.36": KubernetesPins(
        addons={
            # renovate: eksAddonsFilter={"kubernetesVersion":"1.36","addonName":"vpc-cni"}
            "vpc-cni": "v1.23.1-eksbuild.1",
            # renovate: eksAddonsFilter={"kubernetesVersion":"1.36","addonName":"coredns"}
            "coredns": "v1.14.6-eksbuild.4",
            # renovate: eksAddonsFilter={"kubernetesVersion":"1.36","addonName":"kube-proxy"}
            "kube-proxy": "v1.36.0-eksbuild.25",
            # renovate: eksAddonsFilter={"kubernetesVersion":"1.36","addonName":"aws-ebs-csi-driver"}
            "aws-ebs-csi-driver": "v1.66.0-eksbuild.1",
            # renovate: eksAddonsFilter={"kubernetesVersion":"1.36","addonName":"metrics-server"}
            "metrics-server": "v0.9.0-eksbuild.11",
            # Installed if `models.access` is mountpoint. The version is from the driver's chart; not confirmed that EKS has
            # it for 1.36.
            # renovate: eksAddonsFilter={"kubernetesVersion":"1.36","addonName":"aws-mountpoint-s3-csi-driver"}
            "aws-mountpoint-s3-csi-driver": "v2.7.0-eksbuild.1",
            # Installed if `models.access` is fsx-lustre. The version is the driver's own release of April 2026; not
            # confirmed that EKS has it.
            # renovate: eksAddonsFilter={"kubernetesVersion":"1.36","addonName":"aws-fsx-csi-driver"}
            "aws-fsx-csi-driver": "v1.9.0-eksbuild.1",
            # Installed with `logs.containerInsights`. Other users report that EKS has it; not checked here.
            # renovate: eksAddonsFilter={"kubernetesVersion":"1.36","addonName":"amazon-cloudwatch-observability"}
            "amazon-cloudwatch-observability": "v6.4.0-eksbuild.1",
            # renovate: eksAddonsFilter={"kubernetesVersion":"1.36","addonName":"eks-pod-identity-agent"}
            "eks-pod-identity-agent": "v1.4.0-eksbuild.2",
            # The version of 1.35. The versions that EKS has for 1.36 are not confirmed.
            # renovate: eksAddonsFilter={"kubernetesVersion":"1.36","addonName":"eks-node-monitoring-agent"}
            "eks-node-monitoring-agent": "v1.7.0-eksbuild.1",
        },
        # renovate: amiOf=awslabs/amazon-eks-ami
        ami_release="1.36.3-20260911",
        nvidia_driver="580.178.04",
    ),
}


# cluster-autoscaler simulates the scheduler of its own minor version, so its image follows the cluster's version, not the
# chart's.
CLUSTER_AUTOSCALER_IMAGES: Mapping[str, str] = {
    # renovate: datasource=docker depName=registry.k8s.io/autoscaling/cluster-autoscaler versioning=semver
    "1.34": "v1.34.5",
    # renovate: datasource=docker depName=registry.k8s.io/autoscaling/cluster-autoscaler versioning=semver
    "1.35": "v1.35.2",
    # renovate: datasource=docker depName=registry.k8s.io/autoscaling/cluster-autoscaler versioning=semver
    "1.36": "v1.36.1",
}


# A driver runs all CUDA toolkits of its major version: docs/facts/gpu-nodes.md#driver-and-cuda.
CUDA_DRIVERS: Mapping[str, str] = {"13": "580.65.06"}
"""The oldest NVIDIA driver for each major version of CUDA."""


def cuda_major(version: str) -> str:
    """Return the major version: `13` of `13.4`."""
    return version.partition(".")[0]


@dataclass(frozen=True)
class TritonRelease:
    """One NGC release of Triton that this platform accepts.

    `server` is the version that the server reports. `cuda` is the toolkit of the image, with a major version in
    CUDA_DRIVERS. `minimum_compute_capability` is the oldest supported GPU generation. `tensorrt` is the version in the image
    `-py3`, as far as known.
    """

    server: str
    cuda: str
    minimum_compute_capability: float
    tensorrt: str | None = None

    @property
    def minimum_driver(self) -> str:
        """Return the oldest NVIDIA driver that runs the image."""
        return CUDA_DRIVERS[cuda_major(self.cuda)]


# docs/facts/triton-configuration.md#releases, docs/facts/gpu-nodes.md#gpu-generations for the capability,
# docs/facts/triton-configuration.md#tensorrt-plans for TensorRT.
TRITON_RELEASES: Mapping[str, TritonRelease] = {
    "26.07": TritonRelease("2.71.0", "13.3", 7.5, "11"),
    "26.08": TritonRelease("2.72.0", "13.4", 7.5, "11"),
    "26.09": TritonRelease("2.73.0", "13.4", 7.5, "11"),
    "26.10": TritonRelease("2.74.0", "13.4", 7.5, "11"),
    "26.11": TritonRelease("2.75.0", "13", 7.5, "11"),
}
# renovate: datasource=docker depName=nvcr.io/nvidia/tritonserver versioning=loose extractVersion=^(?<version>\d+\.\d+)-py3$
DEFAULT_TRITON_VERSION = "26.11"
# The oldest release without vulnerabilities in NVIDIA's bulletins: docs/facts/triton-server.md#security-of-old-releases.
OLDEST_TRITON_VERSION = "26.07"
# In older releases, the dynamic batcher of a model with a queue timeout, a queue delay and two instances can stop
# dispatching (docs/facts/triton-configuration.md#releases).
OLDEST_TRITON_WITHOUT_STARVATION = "26.08"

TRITON_UPSTREAM_REPOSITORY = "nvcr.io/nvidia/tritonserver"


def triton_upstream_tag(version: str) -> str:
    """Return the public source image of a mirror, e.g. `nvcr.io/nvidia/tritonserver:26.07-py3`."""
    return f"{TRITON_UPSTREAM_REPOSITORY}:{version}-py3"


def example_digest(version: str) -> str:
    """Return the placeholder digest in the shipped stack files, to be replaced by your mirror's digest.

    It is the SHA-256 of the upstream tag's name, so it can be recognized as a placeholder. No image has it, so a pod with it
    ends in ImagePullBackOff. The settings warn about it. `stackctl image` replaces it.
    """
    return "sha256:" + hashlib.sha256(triton_upstream_tag(version).encode()).hexdigest()


def driver_key(driver: str) -> tuple[int, ...]:
    """Return the sort key of an NVIDIA driver version: `580.65.06` < `580.159.03`."""
    return tuple(int(part) for part in driver.split("."))
