"""Ownership of resources in an AWS account, by their tags.

The program tags its resources with the project and with the name of the stack as `environment`, so several stacks of one
environment differ. Resources that other components create for the stack (EKS, the network plugin, Karpenter, the EBS driver,
the load balancer controller) have the cluster's name in their own tags.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from spec.settings import Settings
from spec.versions import PROJECT

Tags = Mapping[str, str]

_CLUSTER_NAME_TAGS = (
    "aws:eks:cluster-name",  # EKS: its security group, its interfaces
    "eks:cluster-name",  # EKS: instances and Auto Scaling groups of node groups
    "eks:eks-cluster-name",  # Karpenter
    "elbv2.k8s.aws/cluster",  # AWS Load Balancer Controller
    "cluster.k8s.amazonaws.com/name",  # network plugin: interfaces of pods
)


@dataclass(frozen=True)
class Ownership:
    """The tags of one stack's resources."""

    stack: str
    cluster_name: str

    @classmethod
    def of(cls, settings: Settings) -> Ownership:
        """Return the ownership of the stack with these settings."""
        return cls(settings.stack, settings.cluster_name)

    def reason(self, tags: Tags) -> str | None:
        """Return the tag that marks a resource as this stack's; None for other resources."""
        if tags.get("project") == PROJECT and tags.get("environment") == self.stack:
            return f"project={PROJECT}, environment={self.stack}"
        cluster = f"kubernetes.io/cluster/{self.cluster_name}"
        # A cluster marks resources that it uses and does not own as `shared`.
        if tags.get(cluster) == "owned":
            return f"{cluster}=owned"
        return next((f"{key}={self.cluster_name}" for key in _CLUSTER_NAME_TAGS if tags.get(key) == self.cluster_name), None)

    def stranger(self, tags: Tags) -> str | None:
        """Return the tag that marks a resource as another owner's; None if it is this stack's or has no owner."""
        if self.reason(tags) is not None:
            return None
        for key in ("project", "environment", *_CLUSTER_NAME_TAGS):
            own = {"project": PROJECT, "environment": self.stack}.get(key, self.cluster_name)
            if tags.get(key, own) != own:
                return f"{key}={tags[key]}"
        owner = (key for key, value in tags.items() if key.startswith("kubernetes.io/cluster/") and value == "owned")
        return next((f"{key}=owned" for key in owner), None)


def own_tags(settings: Settings) -> dict[str, str]:
    """Return the tags of a stack's resources: the file's tags and the ownership tags, which take precedence."""
    own = {"project": PROJECT, "environment": settings.stack}
    return {**own, **{key: value for key, value in settings.tags.items() if key.casefold() not in own}}


def tags_of(listed: Iterable[Mapping[str, str]] | None) -> dict[str, str]:
    """Return AWS's list of `{"Key": …, "Value": …}` as a mapping."""
    return {tag["Key"]: tag["Value"] for tag in listed or ()}
