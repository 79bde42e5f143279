"""Who gets into the cluster, and as what."""

from __future__ import annotations

from infra.aws.cluster import access_entries
from tests.infra.access import stack
from tests.spec.stack_config import ADMIN, settings

PREVIEW = "arn:aws:iam::123456789012:role/triton-eks-preview"


def test_some_administer_and_others_look() -> None:
    cluster = settings({"cluster.viewRoleArns": [PREVIEW]}).cluster
    entries = access_entries(stack("staging"), cluster)
    assert {
        name: (entry.principal_arn, label, policy.policy_arn, policy.access_scope.type)
        for name, entry in entries.items()
        for label, policy in entry.access_policies.items()
    } == {
        "123456789012-platform-admin": (
            ADMIN,
            "admin",
            "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy",
            "cluster",
        ),
        "123456789012-triton-eks-preview": (
            PREVIEW,
            "view",
            "arn:aws:eks::aws:cluster-access-policy/AmazonEKSAdminViewPolicy",
            "cluster",
        ),
    }
