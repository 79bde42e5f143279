"""An existing EKS cluster: its facts from AWS, and the problems that they cause for the stack."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from spec.problem import Problem
from spec.settings import Settings
from spec.settings.existing import ExistingCluster

_PATH = "cluster.existing.name"
_MODES = ("API", "API_AND_CONFIG_MAP")


@dataclass(frozen=True)
class ClusterFacts:
    """An EKS cluster. Endpoint, certificate authority and issuer are empty until EKS has created it.

    `certificate_authority` is in base64. `oidc_provider_arn` is None if IAM has no OIDC provider for the issuer.
    """

    name: str
    arn: str
    version: str
    status: str
    endpoint: str
    certificate_authority: str
    issuer: str
    """The issuer's URL without its scheme."""
    authentication_mode: str
    vpc_id: str
    security_group_id: str
    oidc_provider_arn: str | None

    @property
    def is_up(self) -> bool:
        """Return whether the cluster is ready for use."""
        return self.status in ("ACTIVE", "UPDATING")


def mistakes(settings: Settings, existing: ExistingCluster, cluster: ClusterFacts | None) -> list[Problem]:
    """Return all problems that prevent the stack from working in the cluster; `cluster` is None if it does not exist."""
    if cluster is None:
        return [
            Problem(
                _PATH,
                f"there is no cluster {existing.name} in {settings.region}; give one that `aws eks list-clusters` says",
            )
        ]
    return list(_mistakes(settings, cluster))


def _mistakes(settings: Settings, cluster: ClusterFacts) -> Iterator[Problem]:
    if not cluster.is_up:
        yield Problem(_PATH, f"{cluster.name} is {cluster.status}; wait until it is ACTIVE, or name another one")
        return
    if cluster.version != settings.cluster.version:
        yield Problem(
            "cluster.version",
            f"{cluster.name} runs Kubernetes {cluster.version}, and nodes and charts would be those of "
            f'{settings.cluster.version}; write "{cluster.version}", or upgrade the cluster',
        )
    if cluster.authentication_mode not in _MODES:
        yield Problem(
            _PATH,
            f"{cluster.name} knows no access entries (authentication mode {cluster.authentication_mode}), by which nodes of "
            f"this stack join; aws eks update-cluster-config --name {cluster.name} --access-config "
            "authenticationMode=API_AND_CONFIG_MAP",
        )
    if cluster.oidc_provider_arn is None:
        yield Problem(
            _PATH,
            f"IAM has no OIDC provider of {cluster.name}, by which pods take their roles; aws iam "
            f"create-open-id-connect-provider --url https://{cluster.issuer} --client-id-list sts.amazonaws.com",
        )
    network = settings.network.existing
    if network is not None and network.vpc_id != cluster.vpc_id:
        yield Problem(
            "network.existing.vpcId",
            f"{cluster.name} is in {cluster.vpc_id}, not in {network.vpc_id}; give the cluster's VPC",
        )
