"""EKS access entries and Pod Identity associations. The resources are rows of twin/aws/rows.py."""

from __future__ import annotations

from twin.aws.base import late, records
from twin.aws.base.clients import Clients
from twin.aws.eks import lookup

POD_IDENTITIES = "pod-identities"
"""The folder of the associations' records, below their cluster's folder."""


def let_creator_in(clients: Clients, cluster: str) -> None:
    """Record the access entry that EKS creates for a cluster's creator: docs/facts/eks.md#creator-is-administrator."""
    principal = _principal(clients, clients("sts").get_caller_identity()["Arn"])
    policy = f"arn:{clients.partition}:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
    entry = {"clusterName": cluster, "principalArn": principal}
    records.put(clients, lookup.record_name(cluster, "access-entries", principal), {**entry, "type": "STANDARD"})
    association = {**entry, "policyArn": policy, "accessScope": {"type": "cluster"}}
    records.put(clients, lookup.record_name(cluster, "access-policies", principal, policy), association)


def _principal(clients: Clients, caller: str) -> str:
    """Return the access entry's principal for a caller; for a role session, the role with its path."""
    _, is_session, session = caller.partition(":assumed-role/")
    if not is_session:
        return caller
    arn: str = clients("iam").get_role(RoleName=session.partition("/")[0])["Role"]["Arn"]
    return arn


def effective_role(clients: Clients, cluster: str, namespace: str, account: str) -> str | None:
    """Return the role of a service account's Pod Identity association, or None before one exists and has effect."""
    name = lookup.record_name(cluster, POD_IDENTITIES, namespace, account)
    found = records.get(clients, name)
    if found is None or records.age(clients, name) < late.seconds(clients, "pod-identity"):
        return None
    return str(found["roleArn"])
