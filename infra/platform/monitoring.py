"""Prometheus, Alertmanager and Grafana: the pinned chart, what it scrapes and judges of ours, and our dashboards."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as k8s

from infra.aws.account import Account
from infra.aws.identity import OidcProvider, WorkloadRole, WorkloadRoleArgs, irsa_trust, role_arn
from infra.platform import monitors, prometheus_stack
from infra.platform.dashboards import FOLDER, Dashboard, dashboards
from infra.platform.prometheus_stack import AlertTopic, RemoteWrite
from infra.platform.third_party import release
from spec.iam_policy import allow, document
from spec.names import ALERTMANAGER, MONITORING_NAMESPACE, PROMETHEUS, ServiceAccount, workload_role
from spec.settings import Settings
from spec.settings.monitoring import Amp
from spec.settings.monitoring import Monitoring as Wanted
from spec.versions import KUBE_PROMETHEUS_STACK


@dataclass(frozen=True)
class MonitoringArgs:
    kubernetes: k8s.Provider
    account: Account
    oidc: OidcProvider
    settings: Settings
    wanted: Wanted
    """The section `monitoring` of the settings."""
    tags: Mapping[str, str]


class Monitoring(pulumi.ComponentResource):
    """What watches one environment, and tells somebody.

    Give `opts.depends_on` what its pods cannot start without: nodes, and the driver that makes their volumes.
    """

    def __init__(self, name: str, args: MonitoringArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("triton:platform:Monitoring", name, None, opts)
        self._name = name
        self._args = args
        self._child = pulumi.ResourceOptions(parent=self, provider=args.kubernetes)
        namespace = k8s.core.v1.Namespace(
            f"{name}-namespace",
            metadata=k8s.meta.v1.ObjectMetaArgs(
                name=MONITORING_NAMESPACE,
                # The node exporter is in the node's network and process namespaces and mounts its file systems.
                labels={"pod-security.kubernetes.io/enforce": "privileged"},
            ),
            opts=self._child,
        )
        storage = self._storage_class()
        remote_write = None if args.wanted.amp is None else self._remote_write(args.wanted.amp)
        topic = None if args.wanted.alert_topic_arn is None else self._alert_topic(args.wanted.alert_topic_arn)
        destinations = [role for _, role in filter(None, (remote_write, topic))]
        installed = release(
            f"{name}-release",
            KUBE_PROMETHEUS_STACK,
            MONITORING_NAMESPACE,
            prometheus_stack.values(
                args.wanted,
                args.settings.cluster_name,
                None if remote_write is None else remote_write[0],
                None if topic is None else topic[0],
            ),
            self._after(namespace, storage, *destinations),
        )
        for manifest in monitors.manifests(args.settings, args.wanted.runbooks):
            k8s.apiextensions.CustomResource(
                f"{name}-{manifest['kind'].lower()}-{manifest['metadata']['name']}",
                api_version=manifest["apiVersion"],
                kind=manifest["kind"],
                metadata=manifest["metadata"],
                spec=manifest["spec"],
                # Their kinds come with the chart.
                opts=self._after(installed),
            )
        for dashboard in dashboards(args.settings):
            self._dashboard(dashboard, namespace)
        self.register_outputs({})

    def _after(self, *resources: pulumi.Resource) -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions.merge(self._child, pulumi.ResourceOptions(depends_on=list(resources)))

    def _storage_class(self) -> k8s.storage.v1.StorageClass:
        """EKS brings gp2 alone."""
        return k8s.storage.v1.StorageClass(
            f"{self._name}-storage-class",
            metadata=k8s.meta.v1.ObjectMetaArgs(name=prometheus_stack.STORAGE_CLASS),
            provisioner="ebs.csi.aws.com",
            parameters={"type": "gp3", "encrypted": "true"},
            # A volume is in one zone: in that of the node which the pod was given, not the other way round.
            volume_binding_mode="WaitForFirstConsumer",
            allow_volume_expansion=True,
            opts=self._child,
        )

    def _remote_write(self, amp: Amp) -> tuple[RemoteWrite, WorkloadRole]:
        account = self._args.account
        workspace = account.arn("aps", f"workspace/{amp.workspace_id}")
        name, role = self._role(PROMETHEUS, "Prometheus writes to AMP", allow(["aps:RemoteWrite"], [workspace]))
        url = f"https://aps-workspaces.{account.region}.amazonaws.com/workspaces/{amp.workspace_id}/api/v1/remote_write"
        return RemoteWrite(role_arn=role_arn(account, name), region=account.region, url=url), role

    def _alert_topic(self, topic_arn: str) -> tuple[AlertTopic, WorkloadRole]:
        name, role = self._role(ALERTMANAGER, "Alertmanager tells a topic", allow(["sns:Publish"], [topic_arn]))
        region = topic_arn.split(":")[3]
        return AlertTopic(role_arn=role_arn(self._args.account, name), region=region, arn=topic_arn), role

    def _role(self, service_account: ServiceAccount, purpose: str, statement: dict[str, object]) -> tuple[str, WorkloadRole]:
        args = self._args
        cluster_name = args.settings.cluster_name
        role_name = workload_role(cluster_name, args.settings.region, service_account.name)
        role = WorkloadRole(
            f"{self._name}-{service_account.name}",
            WorkloadRoleArgs(
                description=f"{purpose}, in {cluster_name}",
                service_account=service_account,
                trust=irsa_trust(args.oidc, service_account),
                policy=document(statement),
                role_name=role_name,
                tags=args.tags,
            ),
            pulumi.ResourceOptions(parent=self),
        )
        return role_name, role

    def _dashboard(self, dashboard: Dashboard, namespace: k8s.core.v1.Namespace) -> None:
        """Grafana's sidecar takes every ConfigMap with this label (helm-values)."""
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
