"""The base class of components that install a third-party chart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import pulumi
import pulumi_kubernetes as k8s

from infra.aws.cluster_access import ClusterAccess
from infra.aws.identity import WorkloadRole, WorkloadRoleArgs
from infra.platform import ingress
from spec.charts import ChartPin
from spec.helm_values import base_values, merge

INSTALL_TIMEOUT_SECONDS = 600
_OCI = "oci://"

PodSecurity = Literal["restricted", "baseline", "privileged"]
"""A level of Kubernetes' Pod Security Standards. `restricted` is for pods that need no access to the node."""


def chart_values(pin: ChartPin, computed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a third-party chart: `helm-values/<chart>/base.yaml`, overridden by the computed values."""
    return merge(base_values(pin.name), computed)


def chart_source(pin: ChartPin, registry: str | None) -> tuple[str, str | None]:
    """Return Helm's reference of a chart and its repository, which is None for an OCI registry.

    `registry` has copies of all charts and replaces each chart's own repository.
    """
    source = registry or pin.repository
    return (f"{source}/{pin.name}", None) if source.startswith(_OCI) else (pin.name, source)


def namespace(
    name: str,
    called: str,
    level: PodSecurity,
    opts: pulumi.ResourceOptions,
    labels: Mapping[str, str] | None = None,
) -> k8s.core.v1.Namespace:
    """Register a namespace in which the API server refuses pods that exceed `level`.

    With `restricted` it also warns the creator of a Deployment with such pods.
    """
    security = {"pod-security.kubernetes.io/enforce": level}
    if level == "restricted":
        security["pod-security.kubernetes.io/warn"] = level
    return k8s.core.v1.Namespace(
        name, metadata=k8s.meta.v1.ObjectMetaArgs(name=called, labels={**security, **(labels or {})}), opts=opts
    )


class AwaitedObject(pulumi.CustomResource):
    """A custom resource whose controller reports values in its status that other resources need.

    The provider waits for the fields in the annotation `pulumi.com/waitFor`
    (https://github.com/pulumi/pulumi-kubernetes/blob/v4.34.2/provider/pkg/jsonpath/jsonpath.go).
    """

    status: pulumi.Output[Mapping[str, Any] | None]

    def __init__(self, name: str, manifest: Mapping[str, Any], opts: pulumi.ResourceOptions) -> None:
        # Pulumi returns only outputs that are also inputs.
        super().__init__(f"kubernetes:{manifest['apiVersion']}:{manifest['kind']}", name, {**manifest, "status": None}, opts)


def custom_resource(name: str, manifest: Mapping[str, Any], opts: pulumi.ResourceOptions) -> pulumi.Resource:
    """Register a custom resource from its manifest."""
    return k8s.apiextensions.CustomResource(
        name,
        api_version=manifest["apiVersion"],
        kind=manifest["kind"],
        metadata=manifest["metadata"],
        spec=manifest["spec"],
        opts=opts,
    )


class InstalledChart(pulumi.ComponentResource):
    """A third-party chart in a cluster: its namespace, the roles of its service accounts, and its release.

    A subclass registers the resources of its chart in order, with the methods below. Children's names begin with its own
    name.
    """

    def __init__(self, token: str, name: str, cluster: ClusterAccess, opts: pulumi.ResourceOptions | None) -> None:
        super().__init__(token, name, None, opts)
        self._name = name
        self._cluster = cluster

    def _after(self, *resources: pulumi.Resource) -> pulumi.ResourceOptions:
        """Return the options of a Kubernetes object that depends on `resources`."""
        return self._cluster.in_cluster(self, *resources)

    def _namespace(self, called: str, level: PodSecurity, labels: Mapping[str, str] | None = None) -> k8s.core.v1.Namespace:
        created = namespace(f"{self._name}-namespace", called, level, self._after(), labels)
        for label, spec in ingress.policies(called, self._cluster.network.cidrs).items():
            k8s.networking.v1.NetworkPolicy(
                f"{self._name}-ingress-{label}",
                metadata=k8s.meta.v1.ObjectMetaArgs(name=f"ingress-{label}", namespace=called),
                spec=spec,
                opts=self._after(created),
            )
        return created

    def _role(self, name: str, args: WorkloadRoleArgs) -> WorkloadRole:
        return WorkloadRole(name, self._cluster, args, pulumi.ResourceOptions(parent=self))

    def _install(
        self, pin: ChartPin, namespace: str, values: Mapping[str, Any], *after: pulumi.Resource, name: str = "release"
    ) -> k8s.helm.v3.Release:
        """Register the release of the pinned chart, named after the chart, in an existing namespace.

        It is a `helm.v3.Release`, because only that runs hooks, and webhook certificates and CRD upgrades are hooks. A
        preview shows only its values.
        """
        chart, repository = chart_source(pin, self._cluster.stack.chart_registry)
        return k8s.helm.v3.Release(
            f"{self._name}-{name}",
            name=pin.name,
            chart=chart,
            version=pin.version,
            repository_opts=None if repository is None else k8s.helm.v3.RepositoryOptsArgs(repo=repository),
            namespace=namespace,
            values=values,
            # A failed upgrade is rolled back automatically; otherwise the release could stay "pending" forever.
            atomic=True,
            timeout=INSTALL_TIMEOUT_SECONDS,
            opts=self._after(*after),
        )
