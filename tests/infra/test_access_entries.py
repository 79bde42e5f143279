"""The principals that may use the cluster, and their permissions."""

from __future__ import annotations

from infra.aws.cluster import access_entries
from tests.infra.access import stack
from tests.spec.stack_config import ADMIN, settings

PREVIEW = "arn:aws:iam::123456789012:role/triton-eks-preview"
ROLLOUTS = "arn:aws:iam::123456789012:role/triton-rollouts"


def test_some_administer_others_look_and_others_roll_out() -> None:
    cluster = settings({"cluster.viewRoleArns": [PREVIEW], "cluster.rolloutRoleArns": [ROLLOUTS]}).cluster
    entries = access_entries(stack("staging"), cluster)
    assert {
        name: (entry.principal_arn, label, policy.policy_arn, policy.access_scope.type)
        for name, entry in entries.items()
        for label, policy in (entry.access_policies or {}).items()
    } == {
        "123456789012-platform-admin": (
            ADMIN,
            "admin",
            "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy",
            "cluster",
        ),
    }
    assert {name: entry.kubernetes_groups for name, entry in entries.items()} == {
        "123456789012-platform-admin": None,
        "123456789012-triton-eks-preview": ["triton-viewers"],
        "123456789012-triton-rollouts": ["triton-rollouts"],
    }
