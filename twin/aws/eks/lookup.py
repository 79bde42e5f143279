"""Look up a cluster for EKS handlers, and the twin's records about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from twin.aws.base import records, tags
from twin.aws.base.clients import Clients
from twin.aws.base.errors import HandlerError
from twin.aws.base.lookup import or_none

API_MODES = ("API", "API_AND_CONFIG_MAP")
"""Authentication modes with access entries."""


def cluster(clients: Clients, name: str) -> dict[str, Any] | None:
    """Return moto's description of the cluster, or None."""
    answer = or_none(clients("eks").describe_cluster, name=name)
    found: dict[str, Any] | None = answer["cluster"] if answer else None
    return found


def require_cluster(clients: Clients, name: str, wanted_by: str) -> dict[str, Any]:
    """Return the cluster's description. Raises HandlerError if it does not exist."""
    found = cluster(clients, name)
    if found is None:
        raise HandlerError(f"{wanted_by}: EKS cluster {name} does not exist")
    return found


def record_name(name: str, kind: str = "cluster", *key: str) -> str:
    """Return the record's name for a part of this cluster: ``record_name("prod", "addons", "coredns")``."""
    return records.path("eks", name, kind, *key)


def record(clients: Clients, name: str) -> dict[str, Any]:
    """Return the twin's own record of the cluster, with the values that moto drops."""
    return records.get(clients, record_name(name)) or {}


def require_attached(clients: Clients, role_name: str, policies: Iterable[str], wanted_by: str) -> None:
    """Raise HandlerError unless these AWS managed policies are already attached to the role."""
    attached = clients("iam").list_attached_role_policies(RoleName=role_name)["AttachedPolicies"]
    names = {policy["PolicyName"] for policy in attached}
    missing = [policy for policy in policies if policy not in names]
    if missing:
        raise HandlerError(
            f"{wanted_by}: role {role_name} does not have {', '.join(missing)} (yet); make it depend on the attachments"
        )


def retag(clients: Clients, arn: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Change a cluster's tags from the old to the new ``tags``."""
    gone = tags.removed(old.get("tags"), new.get("tags"))
    if gone:
        clients("eks").untag_resource(resourceArn=arn, tagKeys=gone)
    if new.get("tags"):
        clients("eks").tag_resource(resourceArn=arn, tags=new["tags"])
