"""IAM policy documents as Python data: statements and trust policies.

Every trust policy is limited: to one source if the service sends it, and to named service accounts for workloads.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

Statement = dict[str, Any]


def allow(
    actions: Sequence[str],
    resources: Sequence[str],
    *,
    sid: str | None = None,
    condition: Mapping[str, Any] | None = None,
) -> Statement:
    """Return an Allow statement of an identity policy."""
    statement: Statement = {"Effect": "Allow", "Action": list(actions), "Resource": list(resources)}
    if sid is not None:
        statement["Sid"] = sid
    if condition is not None:
        statement["Condition"] = dict(condition)
    return statement


def document(*statements: Statement) -> str:
    """Return the JSON text of a policy document with these statements."""
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)}, sort_keys=True)


def service_trust(service: str, *, source_account: str | None = None, source_arn: str | None = None) -> str:
    """Return the trust in an AWS service principal. Account and source limit it against the confused deputy problem.

    EC2 sends neither key when an instance assumes its role, so trust in `ec2.amazonaws.com` has no condition.
    """
    statement: Statement = {
        "Effect": "Allow",
        "Principal": {"Service": service},
        "Action": "sts:AssumeRole",
    }
    condition: dict[str, Any] = {}
    if source_account is not None:
        condition["StringEquals"] = {"aws:SourceAccount": source_account}
    if source_arn is not None:
        condition["ArnLike"] = {"aws:SourceArn": source_arn}
    if condition:
        statement["Condition"] = condition
    return document(statement)


def service_account_trust(provider_arn: str, issuer: str, namespace: str, *service_accounts: str) -> str:
    """Return the trust in exactly these service accounts of a namespace, through the cluster's OIDC provider (IRSA).

    `issuer` is the provider's URL without its scheme. Both `sub` and `aud` are matched, because `sub` alone would also
    accept a token that the cluster issued for another audience.
    """
    subjects = [f"system:serviceaccount:{namespace}:{account}" for account in service_accounts]
    return document(
        {
            "Effect": "Allow",
            "Principal": {"Federated": provider_arn},
            "Action": "sts:AssumeRoleWithWebIdentity",
            "Condition": {
                "StringEquals": {
                    f"{issuer}:sub": subjects[0] if len(subjects) == 1 else subjects,
                    f"{issuer}:aud": "sts.amazonaws.com",
                }
            },
        }
    )


def pod_identity_trust(cluster_arn: str, namespace: str, service_account: str) -> str:
    """Return the trust in EKS Pod Identity for exactly one service account of one cluster.

    The agent tags the session with the pod's cluster, namespace and service account, and the trust requires these tags.
    """
    return document(
        {
            "Effect": "Allow",
            "Principal": {"Service": "pods.eks.amazonaws.com"},
            "Action": ["sts:AssumeRole", "sts:TagSession"],
            "Condition": {
                "StringEquals": {
                    "aws:RequestTag/eks-cluster-arn": cluster_arn,
                    "aws:RequestTag/kubernetes-namespace": namespace,
                    "aws:RequestTag/kubernetes-service-account": service_account,
                }
            },
        }
    )
