"""The eks provider of the twin: ``eks.Cluster`` expands into the same resources as the official component."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any

import grpc
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc

from twin.plugins.components import ChildOptions, Component, Registered, construct
from twin.plugins.errors import NotSupported, PluginError, reporting
from twin.plugins.kubeconfig import of_eks
from twin.plugins.provider import Provider
from twin.plugins.server import EngineLog, engine_address, leave_on_signals, serve
from twin.plugins.values import UNKNOWN

CLUSTER = "eks:index:Cluster"

FIRST_PREVIEW = {"TWIN_FIRST_PREVIEW": "true"}
"""The environment of an engine for which the kubeconfig of a missing cluster is unknown, as on AWS."""

SDKS = {"aws": "pulumi_aws", "kubernetes": "pulumi_kubernetes"}
"""Distributions of the packages of a cluster's children."""


class EksProvider(Provider):
    """Replaces pulumi-eks. It returns a kubeconfig of the twin's only control plane, also in most previews."""

    package = "eks"
    distribution = "pulumi_eks"
    accepts_secrets = True

    def Construct(
        self, request: provider_pb2.ConstructRequest, context: grpc.ServicerContext
    ) -> provider_pb2.ConstructResponse:
        def work() -> provider_pb2.ConstructResponse:
            if request.type != CLUSTER:
                raise NotSupported(
                    f"the twin has no component {request.type}: write it in twin/eks/ and name it in {self.source()}"
                )
            versions = {package: metadata.version(distribution) for package, distribution in SDKS.items()}
            return construct(request, versions, _build)

        return reporting(self.package, f"Construct of {request.type} {request.name}", context, work)


def _build(component: Component) -> provider_pb2.ConstructResponse:
    from twin.eks.expansion import ExpansionError, expand_cluster

    component.register_self()

    def register(
        type: str,
        name: str,
        props: Mapping[str, Any],
        *,
        parent: str | None = None,
        depends_on: Sequence[str] = (),
        ignore_changes: Sequence[str] = (),
    ) -> Registered:
        options = ChildOptions(parent=parent, depends_on=tuple(depends_on), ignore_changes=tuple(ignore_changes))
        return component.register(type, name, props, options)

    try:
        outputs = expand_cluster(
            component.name,
            component.inputs,
            register,
            kubeconfig=_kubeconfig,
            resolve=component.resolve,
        )
    except ExpansionError as error:
        raise PluginError(str(error)) from error
    return component.finish(outputs)


def _kubeconfig(cluster: Mapping[str, Any]) -> Any:
    """Return the kubeconfig of a cluster with these outputs; UNKNOWN in a first preview without a cluster."""
    exists = UNKNOWN not in (cluster["endpoint"], cluster["certificateAuthority"])
    return of_eks(cluster) if exists or not FIRST_PREVIEW.items() <= os.environ.items() else UNKNOWN


def main() -> None:
    """Run the plugin's process."""
    leave_on_signals()
    provider = EksProvider(EngineLog(engine_address(sys.argv[1:])))
    serve(lambda server: provider_pb2_grpc.add_ResourceProviderServicer_to_server(provider, server))


if __name__ == "__main__":
    main()
