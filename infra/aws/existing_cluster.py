"""A cluster that is there already: the way into it, and nothing that would change it."""

from __future__ import annotations

import json
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from infra.aws.cluster_access import ClusterAccess, OidcProvider
from infra.aws.network_access import NetworkAccess
from infra.aws.stack import Stack
from spec.existing.cluster import ClusterFacts


class ExistingCluster(pulumi.ComponentResource):
    """The provider of the cluster's API, as whoever runs the program: its access entry is the owner's to make."""

    access: ClusterAccess
    """The names and ids of the cluster that every component in it takes, and the provider of its API."""

    def __init__(
        self,
        name: str,
        stack: Stack,
        cluster: ClusterFacts,
        network: NetworkAccess,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("triton:cluster:ExistingCluster", name, None, opts)
        # What is found is known in every preview; a cluster that is made is an output of its own.
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
                kubeconfig=json.dumps(kubeconfig(cluster, stack.region), sort_keys=True),
                enable_server_side_apply=True,
                cluster_identifier=cluster.arn,
                opts=pulumi.ResourceOptions(parent=self),
            ),
        )
        self.register_outputs({"name": cluster.name, "arn": cluster.arn})


def kubeconfig(cluster: ClusterFacts, region: str) -> dict[str, Any]:
    """Return a kubeconfig as `aws eks update-kubeconfig` writes it: a token is made whenever one is needed."""
    get_token = ["--region", region, "eks", "get-token", "--cluster-name", cluster.name, "--output", "json"]
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": cluster.arn,
                "cluster": {"server": cluster.endpoint, "certificate-authority-data": cluster.certificate_authority},
            }
        ],
        "contexts": [{"name": cluster.arn, "context": {"cluster": cluster.arn, "user": cluster.arn}}],
        "current-context": cluster.arn,
        "users": [
            {
                "name": cluster.arn,
                "user": {
                    "exec": {
                        "apiVersion": "client.authentication.k8s.io/v1beta1",
                        "command": "aws",
                        "args": get_token,
                        "interactiveMode": "Never",
                    }
                },
            }
        ],
    }
