"""Changes that the engine means to make in place, and that cannot be made so: by themselves, or beside a replacement."""

from __future__ import annotations

from collections.abc import Sequence

from stackctl.review.plan import ABSENT, Step

_CLUSTER, _VPC = "aws:eks/cluster:Cluster", "aws:ec2/vpc:Vpc"
_SUBNETS = "vpcConfig.subnetIds"
_KEY = "encryptionConfig.provider.keyArn"


def of(step: Step, replaced: Sequence[Step]) -> str | None:
    """Return why the update `step` is not carried out beside these replacements, as a clause; None where it is."""
    return _by_itself(step) or beside(step, replaced)


def beside(step: Step, replaced: Sequence[Step]) -> str | None:
    """Return why these replacements make AWS refuse the update `step`, as a clause; None where they do not.

    EKS changes the subnets of a cluster in place, but only to subnets of the VPC that the cluster was made in.
    """
    moves = step.type == _CLUSTER and any(change.path.startswith(_SUBNETS) for change in step.changed)
    if moves and any(other.type == _VPC for other in replaced):
        return "EKS refuses this update, as a cluster stays in the VPC that it was made in: plan a new stack instead"
    return None


def _by_itself(step: Step) -> str | None:
    """Return why the update `step` is never carried out.

    The provider gives a key for its secrets only to a cluster that has none, and does nothing otherwise:
    https://github.com/hashicorp/terraform-provider-aws/blob/main/internal/service/eks/cluster.go (resourceClusterUpdate).
    """
    keys = step.action == "update" and step.type == _CLUSTER
    if keys and any(change.path.startswith(_KEY) and change.before != ABSENT for change in step.changed):
        return (
            "the provider does nothing here: a cluster keeps the key of its secrets, and they cannot be read without it; "
            "keep that key, or plan a new stack"
        )
    return None
