"""The kubernetes provider of the twin: objects of any kind, releases and charts, on a real API server."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import metadata
from typing import Any, Protocol

import grpc
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc

from twin.cluster.kube_api import KubeClient
from twin.plugins import chart, kubeconfig, releases
from twin.plugins.components import construct
from twin.plugins.errors import Failure, NotSupported, PluginError, reporting
from twin.plugins.kube_objects import KubeObjects
from twin.plugins.provider import Plan, Provider, Resource
from twin.plugins.releases import Releases
from twin.plugins.server import EngineLog, engine_address, leave_on_signals, serve
from twin.plugins.values import Values

NOT_OBJECTS = ("kubernetes:helm.sh/", "kubernetes:kustomize", "kubernetes:yaml")
"""Types that are not objects of the API. Supported ones are handled before this check."""


class Operations(Protocol):
    """The provider's operations on resources of one sort; see Provider for the meaning of each."""

    def check(self, resource: Resource, old: Values, new: Values, seed: bytes) -> tuple[Values, list[Failure]]: ...
    def diff(self, resource: Resource, old: Values, new: Values, state: Values) -> Plan: ...
    def preview_create(self, resource: Resource, inputs: Values) -> Values: ...
    def create(self, resource: Resource, inputs: Values, timeout: float) -> tuple[str, Values]: ...
    def read(self, resource: Resource, inputs: Values, state: Values) -> tuple[Values, Values] | None: ...
    def preview_update(self, resource: Resource, state: Values, inputs: Values) -> Values: ...
    def update(self, resource: Resource, state: Values, inputs: Values, timeout: float) -> Values: ...
    def delete(self, resource: Resource, inputs: Values, state: Values, timeout: float) -> None: ...


class KubernetesProvider(Provider):
    """Replaces pulumi-kubernetes. Needs a kubeconfig whose server is on loopback."""

    package = "kubernetes"
    distribution = "pulumi_kubernetes"
    accepts_secrets = True
    identity = frozenset({"clusterIdentifier"})

    def __init__(self, log: EngineLog, *, replaces_others: bool = True) -> None:
        """`replaces_others`: use the twin's cluster instead of a foreign EKS cluster; else refuse such a cluster."""
        super().__init__(log)
        self._replaces_others = replaces_others
        self._client: KubeClient | None = None
        self._namespace = "default"
        self._objects: Operations | None = None
        self._releases: Operations | None = None

    def configure(self, config: Values) -> None:
        given = config.get("kubeconfig")
        if not given:
            raise PluginError("the kubernetes provider has no kubeconfig: give the resource an explicit provider")
        content = given if isinstance(given, Mapping) else kubeconfig.parse_kubeconfig(str(given))
        if self._replaces_others:
            content = kubeconfig.instead_of_another(content)
        client = self._client = kubeconfig.connect(content)
        self._namespace = config.get("namespace") or kubeconfig.namespace(content)
        mutable = {
            kind
            for kind, option in (("ConfigMap", "enableConfigMapMutable"), ("Secret", "enableSecretMutable"))
            if _true(config, option)
        }
        self._objects = KubeObjects(
            client,
            self.log,
            self.cancelled,
            namespace=self._namespace,
            mutable=frozenset(mutable),
            force=_true(config, "enablePatchForce"),
            forget_unreachable=_true(config, "deleteUnreachable"),
        )
        self._releases = Releases(client, self.log, self.cancelled, namespace=self._namespace)

    def check(self, resource: Resource, old: Values, new: Values, seed: bytes) -> tuple[Values, list[Failure]]:
        return self._operations(resource).check(resource, old, new, seed)

    def diff(self, resource: Resource, old: Values, new: Values, state: Values) -> Plan:
        return self._operations(resource).diff(resource, old, new, state)

    def preview_create(self, resource: Resource, inputs: Values) -> Values:
        return self._operations(resource).preview_create(resource, inputs)

    def create(self, resource: Resource, inputs: Values, timeout: float) -> tuple[str, Values]:
        return self._operations(resource).create(resource, inputs, timeout)

    def read(self, resource: Resource, inputs: Values, state: Values) -> tuple[Values, Values] | None:
        return self._operations(resource).read(resource, inputs, state)

    def preview_update(self, resource: Resource, state: Values, inputs: Values) -> Values:
        return self._operations(resource).preview_update(resource, state, inputs)

    def update(self, resource: Resource, state: Values, inputs: Values, timeout: float) -> Values:
        return self._operations(resource).update(resource, state, inputs, timeout)

    def delete(self, resource: Resource, inputs: Values, state: Values, timeout: float) -> None:
        self._operations(resource).delete(resource, inputs, state, timeout)

    def Construct(
        self, request: provider_pb2.ConstructRequest, context: grpc.ServicerContext
    ) -> provider_pb2.ConstructResponse:
        def work() -> provider_pb2.ConstructResponse:
            if request.type != chart.TOKEN:
                raise NotSupported(f"the twin has no component {request.type}: extend twin/plugins/kubernetes.py")
            if self._client is None:
                raise PluginError("the kubernetes provider is used before it is configured")
            client = self._client
            versions = {self.package: metadata.version(self.distribution)}
            return construct(request, versions, lambda component: chart.build(component, client, self.log, self._namespace))

        return reporting(self.package, f"Construct of {request.type} {request.name}", context, work)

    def _operations(self, resource: Resource) -> Operations:
        found = self._releases if resource.type == releases.TOKEN else self._objects
        if resource.type != releases.TOKEN and resource.type.startswith(NOT_OBJECTS):
            raise NotSupported(f"the twin has no {resource.type}: extend twin/plugins/kubernetes.py")
        if found is None:
            raise PluginError("the kubernetes provider is used before it is configured")
        return found


def _true(config: Mapping[str, Any], option: str) -> bool:
    """Return whether an option is true: the engine sends booleans of a provider's configuration as text."""
    return config.get(option) in (True, "true")


def main() -> None:
    """Run the plugin's process."""
    leave_on_signals()
    provider = KubernetesProvider(EngineLog(engine_address(sys.argv[1:])))
    serve(lambda server: provider_pb2_grpc.add_ResourceProviderServicer_to_server(provider, server))


if __name__ == "__main__":
    main()
