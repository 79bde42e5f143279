"""EKS's add-ons and the third-party charts: which a stack has, and their pods: where, how many, what each asks for.

Requests that our values set are read from `helm-values`; those that they leave to a chart or an add-on stand here
(docs/facts/requests.md). A chart or an add-on that a stack registers and that is missing here fails a test, and so does a
request in `helm-values` that nothing here reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from spec.settings.model import Document
from spec.settings.scheduling.requests import NOTHING, Request

Where = Literal["system nodes", "every node", "GPU nodes"]
REPLICAS_OF_MONITORING = "monitoring.replicas"
"""In place of a path in the chart's values: the number is that of the stack file."""


@dataclass(frozen=True)
class PodSet:
    """The pods of one Deployment, StatefulSet or DaemonSet.

    `request`: of each pod, or where the chart's values have it. `count`: how many, or where the values have it; of a
    DaemonSet one on each node. `beside`: what other containers of the pod ask for. `surges`: an update starts a new pod
    before it ends an old one. `apart`: two of them never share a node.
    """

    name: str
    request: Request | str
    where: Where = "system nodes"
    count: int | str = 1
    beside: Request = NOTHING
    surges: bool = True
    apart: bool = False


# One container each of the EBS driver asks for this, and so do those of the Mountpoint and FSx drivers that set nothing.
_CSI_CONTAINER = Request(10, 40)

ADDONS: Mapping[str, tuple[PodSet, ...]] = {
    # aws-node and the agent of network policies
    "vpc-cni": (PodSet("aws-node", Request(25) + Request(25), "every node"),),
    "kube-proxy": (PodSet("kube-proxy", Request(100), "every node"),),
    "coredns": (PodSet("coredns", Request(100, 70), count=2),),
    "metrics-server": (PodSet("metrics-server", Request(100, 200), count=2),),
    # Beside it on GPU nodes runs dcgm-server, which asks for nothing.
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
    # With the configuration of infra/platform/container_insights.py, which leaves Fluent Bit and the exporters of GPUs out.
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

# The sidecar that reloads the configuration: what the operator gives it where the chart says nothing.
_CONFIG_RELOADER = Request(10, 50)

CHARTS: Mapping[str, tuple[PodSet, ...]] = {
    "aws-load-balancer-controller": (PodSet("aws-load-balancer-controller", "resources", count="replicaCount"),),
    "cluster-autoscaler": (PodSet("cluster-autoscaler", "resources", count="replicaCount"),),
    "dcgm-exporter": (PodSet("dcgm-exporter", "resources", "GPU nodes"),),
    "external-secrets": (PodSet("external-secrets", "resources", count="replicaCount"),),
    "fluent-bit": (PodSet("fluent-bit", "resources", "every node"),),
    "gateway-helm": (PodSet("envoy-gateway", "deployment.envoyGateway.resources", count="deployment.replicas"),),
    "karpenter": (PodSet("karpenter", "controller.resources", count="replicas", surges=False, apart=True),),
    "karpenter-crd": (),
    "keda": (
        PodSet("keda-operator", "resources.operator", count="operator.replicaCount"),
        PodSet("keda-operator-metrics-apiserver", "resources.metricServer", count="metricsServer.replicaCount"),
        PodSet("keda-admission-webhooks", "resources.webhooks", count="webhooks.replicaCount"),
    ),
    "kube-prometheus-stack": (
        PodSet(
            "prometheus",
            "prometheus.prometheusSpec.resources",
            count=REPLICAS_OF_MONITORING,
            beside=_CONFIG_RELOADER,
            surges=False,
        ),
        PodSet(
            "alertmanager",
            "alertmanager.alertmanagerSpec.resources",
            count=REPLICAS_OF_MONITORING,
            beside=_CONFIG_RELOADER,
            surges=False,
        ),
        PodSet("kube-prometheus-stack-operator", "prometheusOperator.resources"),
        PodSet("kube-state-metrics", "kube-state-metrics.resources"),
        PodSet("grafana", "grafana.resources"),
        PodSet("node-exporter", "prometheus-node-exporter.resources", "every node"),
    ),
    "nvidia-device-plugin": (PodSet("nvidia-device-plugin", "resources", "GPU nodes"),),
    "opencost": (PodSet("opencost", "opencost.exporter.resources", count="opencost.exporter.replicas"),),
    "opentelemetry-collector": (PodSet("otel-collector", "resources", count="replicaCount"),),
    "prometheus-adapter": (PodSet("prometheus-adapter", "resources", count="replicas"),),
}

OF_MPS: tuple[PodSet, ...] = (
    PodSet("gpu-feature-discovery", "resources", "GPU nodes"),
    PodSet("mps-control-daemon", "resources", "GPU nodes"),
    PodSet("node-feature-discovery-worker", Request(5, 64), "every node"),
    PodSet("node-feature-discovery-master", Request(100, 128)),
    PodSet("node-feature-discovery-gc", Request(10, 128)),
)
"""Pods that the chart of the device plugin brings beside it where GPUs are shared by MPS."""

SHUTDOWN_MANAGER = Request(10, 32)
"""The container that drains Envoy, which Envoy Gateway puts beside it."""
PARITY_EXPORTER = Request(50, 256)

_ADDONS_OF_ACCESS: Mapping[str, str] = {"mountpoint": "aws-mountpoint-s3-csi-driver", "fsx-lustre": "aws-fsx-csi-driver"}


def addons(document: Document) -> list[str]:
    """Return the names of EKS's add-ons that a stack has."""
    mounts = _ADDONS_OF_ACCESS.get(document.models.access)
    insights = document.logs is not None and document.logs.container_insights is not None
    return [
        *ADDONS_OF_EVERY_STACK,
        *([mounts] if mounts is not None else []),
        *(["amazon-cloudwatch-observability"] if insights else []),
    ]


def charts(document: Document) -> list[str]:
    """Return the names of the third-party charts that a stack installs."""
    worker_scaler = document.worker.autoscaler if document.worker is not None else None
    monitoring, gpus = document.monitoring, bool(document.gpu.pools)
    installed = {
        "nvidia-device-plugin": gpus,
        "kube-prometheus-stack": monitoring is not None,
        "dcgm-exporter": monitoring is not None and gpus,
        "fluent-bit": document.logs is not None,
        "opencost": monitoring is not None and monitoring.open_cost,
        "karpenter": document.node_autoscaler == "karpenter",
        "karpenter-crd": document.node_autoscaler == "karpenter",
        "cluster-autoscaler": document.node_autoscaler == "cluster-autoscaler",
        "keda": "keda" in (document.pod_autoscaler, worker_scaler),
        "prometheus-adapter": document.pod_autoscaler == "hpa",
        "aws-load-balancer-controller": document.gateway is not None,
        "gateway-helm": document.gateway is not None,
        "external-secrets": document.gateway is not None and document.gateway.has_keys,
        "opentelemetry-collector": document.tracing is not None,
    }
    return [chart for chart, there in installed.items() if there]
