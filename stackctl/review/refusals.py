"""Changes that the engine means to make in place, and that AWS refuses because of what else the plan does."""

from __future__ import annotations

from collections.abc import Sequence

from stackctl.review.plan import ABSENT, Step

_CLUSTER, _VPC = "aws:eks/cluster:Cluster", "aws:ec2/vpc:Vpc"
_SUBNETS = "vpcConfig.subnetIds"
_KEY = "encryptionConfig.provider.keyArn"


def of(step: Step, replaced: Sequence[Step]) -> str | None:
    """Why AWS refuses the update `step` beside these replacements, as a clause; None where nothing is known against it.

    EKS changes the subnets of a cluster in place, but only to subnets of the VPC that the cluster was made in. The
    provider gives a key for its secrets only to a cluster that has none, and does nothing otherwise:
    https://github.com/hashicorp/terraform-provider-aws/blob/main/internal/service/eks/cluster.go (resourceClusterUpdate).
    """
    keys = step.action == "update" and step.type == _CLUSTER
    if keys and any(change.path.startswith(_KEY) and change.before != ABSENT for change in step.changed):
        return (
            "the provider does nothing here: a cluster keeps the key of its secrets, and they cannot be read without it; "
            "keep that key, or plan a new stack"
        )
    moves = step.type == _CLUSTER and any(change.path.startswith(_SUBNETS) for change in step.changed)
    if moves and any(other.type == _VPC for other in replaced):
        return "EKS refuses this update, as a cluster stays in the VPC that it was made in: plan a new stack instead"
    return None
