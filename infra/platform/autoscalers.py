"""The autoscalers of a stack: for nodes, and for pods or their metrics."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi

from infra.aws.cluster_access import ClusterAccess
from infra.aws.nodes import Nodes
from infra.platform.cluster_autoscaler import ClusterAutoscaler
from infra.platform.karpenter import Karpenter
from infra.platform.keda import Keda
from infra.platform.prometheus_adapter import PrometheusAdapter
from infra.platform.prometheus_stack import prometheus_url
from spec.scaling.signal import recordings
from spec.settings import Settings


def install_node_autoscaler(
    cluster: ClusterAccess, settings: Settings, nodes: Nodes, after: Sequence[pulumi.Resource]
) -> list[pulumi.Resource]:
    """Install Karpenter or cluster-autoscaler, never both, because they would conflict; none for fixed node groups."""
    opts = pulumi.ResourceOptions(depends_on=list(after))
    if settings.node_autoscaler == "karpenter":
        roles = {"node_role_name": nodes.role_name, "node_role_arn": nodes.role_arn}
        return [Karpenter("karpenter", cluster, settings, **roles, opts=opts)]
    if settings.node_autoscaler == "cluster-autoscaler":
        return [ClusterAutoscaler("cluster-autoscaler", cluster, monitored=settings.monitoring is not None, opts=opts)]
    return []


def install_pod_autoscaler(
    cluster: ClusterAccess, settings: Settings, after: Sequence[pulumi.Resource]
) -> list[pulumi.Resource]:
    """Install KEDA if it scales Triton or the workers, and prometheus-adapter for a plain HorizontalPodAutoscaler."""
    opts = pulumi.ResourceOptions(depends_on=list(after))
    installed: list[pulumi.Resource] = []
    if "keda" in (settings.pod_autoscaler, settings.worker.pod_autoscaler if settings.worker is not None else None):
        installed.append(Keda("keda", cluster, monitored=settings.monitoring is not None, opts=opts))
    if settings.pod_autoscaler == "hpa":
        served = recordings(settings)
        installed.append(PrometheusAdapter("prometheus-adapter", cluster, prometheus_url(settings), served, opts))
    return installed
