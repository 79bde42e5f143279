"""The EKS add-ons of a stack and their pods: placement, number and requests (docs/facts/requests.md).

A test fails if a stack registers an add-on that is missing here. Third-party charts are in `spec/charts.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

from spec.pod_sets import NOTHING, PodSet, Request
from spec.settings.model import Document

# The request of an EBS driver container, and of the Mountpoint and FSx driver containers that set none.
_CSI_CONTAINER = Request(10, 40)

ADDONS: Mapping[str, tuple[PodSet, ...]] = {
    # aws-node and the network policy agent
    "vpc-cni": (PodSet("aws-node", Request(25) + Request(25), "every node"),),
    "kube-proxy": (PodSet("kube-proxy", Request(100), "every node"),),
    "coredns": (PodSet("coredns", Request(100, 70), count=2),),
    "metrics-server": (PodSet("metrics-server", Request(100, 200), count=2),),
    # On GPU nodes, dcgm-server runs next to it without requests.
    "eks-node-monitoring-agent": (PodSet("eks-node-monitoring-agent", Request(10, 30), "every node"),),
    "eks-pod-identity-agent": (PodSet("eks-pod-identity-agent", NOTHING, "every node"),),
    "aws-ebs-csi-driver": (
        PodSet("ebs-csi-node", _CSI_CONTAINER * 3, "every node"),
        PodSet("ebs-csi-controller", _CSI_CONTAINER * 6, count=2, surges=False),
    ),
    "aws-mountpoint-s3-csi-driver": (
        PodSet("s3-csi-node", _CSI_CONTAINER * 3, "every node"),
        PodSet("s3-csi-controller", NOTHING),
    ),
    # With the configuration in infra/platform/container_insights.py, without Fluent Bit and the GPU exporters.
    "amazon-cloudwatch-observability": (
        PodSet("cloudwatch-agent", Request(250, 128), "every node"),
        PodSet("amazon-cloudwatch-observability-controller-manager", Request(100, 64)),
    ),
    "aws-fsx-csi-driver": (
        PodSet("fsx-csi-node", Request(10, 40) + Request(10, 32) * 2, "every node"),
        PodSet("fsx-csi-controller", Request(10, 40) + Request(10, 32) * 3, count=2),
    ),
}

ADDONS_OF_EVERY_STACK = (
    "vpc-cni",
    "kube-proxy",
    "coredns",
    "metrics-server",
    "eks-node-monitoring-agent",
    "eks-pod-identity-agent",
    "aws-ebs-csi-driver",
)

_ADDONS_OF_ACCESS: Mapping[str, str] = {"mountpoint": "aws-mountpoint-s3-csi-driver", "fsx-lustre": "aws-fsx-csi-driver"}


def addons(document: Document) -> list[str]:
    """Return the names of the EKS add-ons of a stack."""
    mounts = _ADDONS_OF_ACCESS.get(document.models.access)
    insights = document.logs is not None and document.logs.container_insights is not None
    return [
        *ADDONS_OF_EVERY_STACK,
        *([mounts] if mounts is not None else []),
        *(["amazon-cloudwatch-observability"] if insights else []),
    ]
