"""Prometheus, Alertmanager and Grafana: the pinned chart, our monitors and rules, and our dashboards."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pulumi
import pulumi_kubernetes as k8s

from infra.aws.cluster_access import ClusterAccess
from infra.aws.identity import WorkloadRole, WorkloadRoleArgs
from infra.platform import monitors, prometheus_stack
from infra.platform.dashboards import FOLDER, Dashboard, dashboards
from infra.platform.gpu_metrics import GpuMetrics
from infra.platform.installed_chart import InstalledChart, custom_resource
from infra.platform.opencost import OpenCost
from infra.platform.prometheus_stack import AlertTopic, RemoteWrite
from spec.charts import KUBE_PROMETHEUS_STACK
from spec.iam_policy import Statement, allow, document
from spec.names import ALERTMANAGER, MONITORING_NAMESPACE, PROMETHEUS, ServiceAccount
from spec.settings import Settings
from spec.settings.monitoring import Amp
from spec.settings.monitoring import Monitoring as MonitoringSettings


class Monitoring(InstalledChart):
    """Prometheus, Alertmanager and Grafana of one stack; `monitoring` is that section of its settings.

    `opts.depends_on` has to name the prerequisites of its pods: nodes, and the driver that creates their volumes.
    """

    def __init__(
        self,
        name: str,
        cluster: ClusterAccess,
        settings: Settings,
        monitoring: MonitoringSettings,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("triton:platform:Monitoring", name, cluster, opts)
        # The node exporter uses the node's network and process namespaces and mounts its file systems.
        namespace = self._namespace(MONITORING_NAMESPACE, "privileged")
        storage = self._storage_class()
        remote_write, writer = self._remote_write(monitoring.amp) if monitoring.amp is not None else (None, None)
        topic_arn = monitoring.alert_topic_arn
        topic, teller = self._alert_topic(topic_arn) if topic_arn is not None else (None, None)
        installed = self._install(
            KUBE_PROMETHEUS_STACK,
            MONITORING_NAMESPACE,
            prometheus_stack.values(monitoring, cluster.known_name, remote_write, topic),
            *(resource for resource in (namespace, storage, writer, teller) if resource is not None),
        )
        for manifest in monitors.manifests(settings, monitoring.runbooks):
            # The chart installs their kinds.
            custom_resource(
                f"{name}-{manifest['kind'].lower()}-{manifest['metadata']['name']}", manifest, self._after(installed)
            )
        for dashboard in dashboards(settings):
            self._dashboard(dashboard, namespace)
        self.register_outputs({})

    def _storage_class(self) -> k8s.storage.v1.StorageClass:
        """Register a class of gp3 volumes, because EKS only has gp2."""
        return k8s.storage.v1.StorageClass(
            f"{self._name}-storage-class",
            metadata=k8s.meta.v1.ObjectMetaArgs(name=prometheus_stack.STORAGE_CLASS),
            provisioner="ebs.csi.aws.com",
            parameters={"type": "gp3", "encrypted": "true"},
            # A volume is in one zone: create it in the zone of the pod's node, not the other way round.
            volume_binding_mode="WaitForFirstConsumer",
            allow_volume_expansion=True,
            opts=self._after(),
        )

    def _remote_write(self, amp: Amp) -> tuple[RemoteWrite, WorkloadRole]:
        account = self._cluster.stack.account
        workspace = account.arn("aps", f"workspace/{amp.workspace_id}")
        role = self._sender(PROMETHEUS, "Prometheus writes to AMP", allow(["aps:RemoteWrite"], [workspace]))
        url = f"https://{account.host('aps-workspaces')}/workspaces/{amp.workspace_id}/api/v1/remote_write"
        return RemoteWrite(region=account.region, url=url), role

    def _alert_topic(self, topic_arn: str) -> tuple[AlertTopic, WorkloadRole]:
        role = self._sender(ALERTMANAGER, "Alertmanager tells a topic", allow(["sns:Publish"], [topic_arn]))
        return AlertTopic(region=topic_arn.split(":")[3], arn=topic_arn), role

    def _sender(self, account: ServiceAccount, description: str, right: Statement) -> WorkloadRole:
        args = WorkloadRoleArgs(f"{description}, in {self._cluster.stack.cluster_name}", account, policy=document(right))
        return self._role(f"{self._name}-{account.name}", args)

    def _dashboard(self, dashboard: Dashboard, namespace: k8s.core.v1.Namespace) -> None:
        """Register a ConfigMap with the label by which Grafana's sidecar finds it (helm-values)."""
        k8s.core.v1.ConfigMap(
            f"{self._name}-dashboard-{dashboard['uid']}",
            metadata=k8s.meta.v1.ObjectMetaArgs(
                name=f"dashboard-{dashboard['uid']}",
                namespace=MONITORING_NAMESPACE,
                labels={"grafana_dashboard": "1"},
                annotations={"grafana_folder": FOLDER},
            ),
            data={f"{dashboard['uid']}.json": json.dumps(dashboard, sort_keys=True)},
            opts=self._after(namespace),
        )


def install_monitoring(
    cluster: ClusterAccess, settings: Settings, after: Sequence[pulumi.Resource]
) -> list[pulumi.Resource]:
    """Install the monitoring if the stack has it, with the exporters that need it.

    Components with a ServiceMonitor depend on the returned resources, which install that kind.
    """
    if settings.monitoring is None:
        return []
    opts = pulumi.ResourceOptions(depends_on=list(after))
    monitoring = Monitoring("monitoring", cluster, settings, settings.monitoring, opts)
    watched = pulumi.ResourceOptions(depends_on=[monitoring])
    if settings.gpu.pools:
        GpuMetrics("gpu-metrics", cluster, settings.gpu.pools, watched)
    if settings.monitoring.open_cost:
        OpenCost("opencost", cluster, watched)
    return [monitoring]
