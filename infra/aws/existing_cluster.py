"""Access to an existing cluster, without changing it."""

from __future__ import annotations

import json
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from infra.aws.cluster_access import ClusterAccess, OidcProvider
from infra.aws.network_access import NetworkAccess
from infra.aws.stack import Stack
from spec import kubeconfig
from spec.existing.cluster import ClusterFacts


class ExistingCluster(pulumi.ComponentResource):
    """The provider of the cluster's API, as the caller of the program. The cluster's owner has to create its access
    entry."""

    access: ClusterAccess
    """Names, ids and API provider of the cluster, for all components in the cluster."""

    def __init__(
        self,
        name: str,
        stack: Stack,
        cluster: ClusterFacts,
        network: NetworkAccess,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("triton:cluster:ExistingCluster", name, None, opts)
        # Facts of an existing cluster are known in every preview; a new cluster has outputs.
        output: Any = pulumi.Output.from_input
        self.access = ClusterAccess(
            stack=stack,
            kubernetes_version=cluster.version,
            name=output(cluster.name),
            known_name=cluster.name,
            arn=cluster.arn,
            oidc=OidcProvider(arn=output(cluster.oidc_provider_arn), issuer=output(cluster.issuer)),
            network=network,
            security_group_id=output(cluster.security_group_id),
            ready=[],
            kubernetes=k8s.Provider(
                f"{name}-kubernetes",
                kubeconfig=json.dumps(
                    kubeconfig.of_eks(cluster.name, stack.region, cluster.endpoint, cluster.certificate_authority),
                    sort_keys=True,
                ),
                enable_server_side_apply=True,
                cluster_identifier=cluster.arn,
                opts=pulumi.ResourceOptions(parent=self),
            ),
        )
        self.register_outputs({"name": cluster.name, "arn": cluster.arn})
