"""The third-party charts of the platform, with the version and the pods of each. The settings define which stacks have them.

Renovate reads the comments (renovate.json). Requests that our values set are read from `helm-values`; the charts' own
defaults are listed here (docs/facts/requests.md). A test fails if a stack registers a chart that is missing here, or if
`helm-values` has a request that is not read here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from spec.pod_sets import REPLICAS_OF_MONITORING, PodSet, Request


@dataclass(frozen=True)
class ChartPin:
    """A third-party Helm chart: its repository, version and pods."""

    name: str
    repository: str
    version: str
    pods: tuple[PodSet, ...]


# The sidecar that reloads the configuration, with the operator's default requests.
_CONFIG_RELOADER = Request(10, 50)

NVIDIA_DEVICE_PLUGIN = ChartPin(
    name="nvidia-device-plugin",
    repository="https://nvidia.github.io/k8s-device-plugin",
    # renovate: datasource=helm depName=nvidia-device-plugin registryUrl=https://nvidia.github.io/k8s-device-plugin
    version="0.20.0",
    pods=(PodSet("nvidia-device-plugin", "resources", "GPU nodes"),),
)
PODS_OF_MPS: tuple[PodSet, ...] = (
    PodSet("gpu-feature-discovery", "resources", "GPU nodes"),
    PodSet("mps-control-daemon", "resources", "GPU nodes"),
    PodSet("node-feature-discovery-worker", Request(5, 64), "every node"),
    PodSet("node-feature-discovery-master", Request(100, 128)),
    PodSet("node-feature-discovery-gc", Request(10, 128)),
)
"""Additional pods of the device plugin's chart if GPUs are shared by MPS."""

KUBE_PROMETHEUS_STACK = ChartPin(
    name="kube-prometheus-stack",
    repository="https://prometheus-community.github.io/helm-charts",
    # renovate: datasource=helm depName=kube-prometheus-stack registryUrl=https://prometheus-community.github.io/helm-charts
    # A newer one may need newer CRDs, which Helm does not upgrade: helm-values/kube-prometheus-stack/base.yaml, `crds`.
    version="88.5.3",
    pods=(
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
)

DCGM_EXPORTER = ChartPin(
    name="dcgm-exporter",
    repository="https://nvidia.github.io/dcgm-exporter/helm-charts",
    # renovate: datasource=helm depName=dcgm-exporter registryUrl=https://nvidia.github.io/dcgm-exporter/helm-charts
    version="4.8.2",
    pods=(PodSet("dcgm-exporter", "resources", "GPU nodes"),),
)

KEDA = ChartPin(
    name="keda",
    repository="https://kedacore.github.io/charts",
    # renovate: datasource=helm depName=keda registryUrl=https://kedacore.github.io/charts
    version="2.20.2",
    pods=(
        PodSet("keda-operator", "resources.operator", count="operator.replicaCount"),
        PodSet("keda-operator-metrics-apiserver", "resources.metricServer", count="metricsServer.replicaCount"),
        PodSet("keda-admission-webhooks", "resources.webhooks", count="webhooks.replicaCount"),
    ),
)

PROMETHEUS_ADAPTER = ChartPin(
    name="prometheus-adapter",
    repository="https://prometheus-community.github.io/helm-charts",
    # renovate: datasource=helm depName=prometheus-adapter registryUrl=https://prometheus-community.github.io/helm-charts
    version="5.3.0",
    pods=(PodSet("prometheus-adapter", "resources", count="replicas"),),
)

# Both have the same version. The CRDs have a separate chart because Helm never upgrades CRDs in a chart's crds folder.
KARPENTER = ChartPin(
    name="karpenter",
    repository="oci://public.ecr.aws/karpenter",
    # renovate: datasource=docker depName=public.ecr.aws/karpenter/karpenter
    version="1.14.1",
    pods=(PodSet("karpenter", "controller.resources", count="replicas", surges=False, apart=True),),
)
KARPENTER_CRDS = ChartPin(
    name="karpenter-crd",
    repository="oci://public.ecr.aws/karpenter",
    # renovate: datasource=docker depName=public.ecr.aws/karpenter/karpenter-crd
    version="1.14.1",
    pods=(),
)

CLUSTER_AUTOSCALER = ChartPin(
    name="cluster-autoscaler",
    repository="https://kubernetes.github.io/autoscaler",
    # renovate: datasource=helm depName=cluster-autoscaler registryUrl=https://kubernetes.github.io/autoscaler
    version="9.59.0",
    pods=(PodSet("cluster-autoscaler", "resources", count="replicaCount"),),
)

AWS_LOAD_BALANCER_CONTROLLER = ChartPin(
    name="aws-load-balancer-controller",
    repository="https://aws.github.io/eks-charts",
    # The newest version in the Go module that the tests render. 3.5.0 was compared by hand: docs/traffic.md, "Upgrades". Its
    # permissions are in infra/platform/aws_load_balancer_controller.json, and its CRDs are in a crds folder. Check both and
    # helm-values before an upgrade to a newer minor version.
    # renovate: datasource=helm depName=aws-load-balancer-controller registryUrl=https://aws.github.io/eks-charts
    version="3.2.2",
    pods=(PodSet("aws-load-balancer-controller", "resources", count="replicaCount"),),
)

ENVOY_GATEWAY = ChartPin(
    name="gateway-helm",
    repository="oci://docker.io/envoyproxy",
    # renovate: datasource=docker depName=docker.io/envoyproxy/gateway-helm
    # It brings Gateway API 1.6.1. A newer one may need newer CRDs, which Helm does not upgrade.
    version="v1.9.0",
    pods=(PodSet("envoy-gateway", "deployment.envoyGateway.resources", count="deployment.replicas"),),
)
# A patch of the minor version that this Envoy Gateway uses by default, because the default patch has known vulnerabilities.
# renovate: datasource=docker depName=docker.io/envoyproxy/envoy extractVersion=^distroless-v(?<version>.+)$
ENVOY_VERSION = "1.39.6"
ENVOY_IMAGE = f"envoyproxy/envoy:distroless-v{ENVOY_VERSION}"
SHUTDOWN_MANAGER = Request(10, 32)
"""The sidecar that drains Envoy. Envoy Gateway adds it to each Envoy pod."""

EXTERNAL_SECRETS_OPERATOR = ChartPin(
    name="external-secrets",
    repository="https://charts.external-secrets.io",
    # renovate: datasource=helm depName=external-secrets registryUrl=https://charts.external-secrets.io
    version="2.9.0",
    pods=(PodSet("external-secrets", "resources", count="replicaCount"),),
)

OPENTELEMETRY_COLLECTOR = ChartPin(
    name="opentelemetry-collector",
    repository="https://open-telemetry.github.io/opentelemetry-helm-charts",
    # renovate: datasource=helm depName=opentelemetry-collector registryUrl=https://open-telemetry.github.io/opentelemetry-helm-charts
    version="0.170.0",
    pods=(PodSet("otel-collector", "resources", count="replicaCount"),),
)

FLUENT_BIT = ChartPin(
    name="fluent-bit",
    repository="https://fluent.github.io/helm-charts",
    # renovate: datasource=helm depName=fluent-bit registryUrl=https://fluent.github.io/helm-charts
    version="0.58.1",
    pods=(PodSet("fluent-bit", "resources", "every node"),),
)

OPENCOST = ChartPin(
    name="opencost",
    repository="https://opencost.github.io/opencost-helm-chart",
    # renovate: datasource=helm depName=opencost registryUrl=https://opencost.github.io/opencost-helm-chart
    version="2.5.29",
    pods=(PodSet("opencost", "opencost.exporter.resources", count="opencost.exporter.replicas"),),
)

CHARTS: Mapping[str, ChartPin] = {pin.name: pin for pin in list(globals().values()) if isinstance(pin, ChartPin)}
"""All third-party charts, by name."""
