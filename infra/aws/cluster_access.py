"""Access to a cluster for components, independent of the component that created the cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as k8s

from infra.aws.network_access import NetworkAccess
from infra.aws.stack import Stack
from spec.versions import KUBERNETES, KubernetesPins


@dataclass(frozen=True)
class OidcProvider:
    """The cluster's OIDC provider in IAM."""

    arn: pulumi.Output[str]
    issuer: pulumi.Output[str]
    """The issuer's URL without its scheme."""


@dataclass(frozen=True)
class ClusterAccess:
    """Names, ids and ARNs of one cluster, and the provider of its API. Every component in the cluster takes one."""

    stack: Stack
    kubernetes_version: str
    """The minor version, like 1.35."""
    name: pulumi.Output[str]
    """Known once the cluster exists; `known_name` is the same text and known before."""
    known_name: str
    arn: str
    """Known before the cluster exists."""
    oidc: OidcProvider
    network: NetworkAccess
    security_group_id: pulumi.Output[str]
    """The group that EKS creates for control plane and nodes, the only one with the cluster's tag."""
    ready: Sequence[pulumi.Resource]
    """Prerequisites of nodes: the control plane and its network plugin, if this program creates them."""
    kubernetes: k8s.Provider
    """The provider of every Kubernetes resource; the ambient kubeconfig is never used."""

    @property
    def vpc_id(self) -> pulumi.Input[str]:
        """Return the VPC of the nodes."""
        return self.network.vpc_id

    @property
    def node_subnet_ids(self) -> Mapping[str, pulumi.Output[str]]:
        """Return the private subnets, by zone."""
        return self.network.private_subnet_ids

    @property
    def pins(self) -> KubernetesPins:
        """Return the versions of node images and add-ons for the cluster's version."""
        return KUBERNETES[self.kubernetes_version]

    def in_cluster(self, parent: pulumi.Resource, *after: pulumi.Resource) -> pulumi.ResourceOptions:
        """Return the options of a component's Kubernetes object that depends on `after`."""
        return pulumi.ResourceOptions(parent=parent, provider=self.kubernetes, depends_on=list(after))
