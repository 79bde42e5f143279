"""Access entries, access policy associations and pod identity associations. moto has none of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import ClassVar

from twin.aws.base import late, records
from twin.aws.base.clients import Clients
from twin.aws.base.errors import HandlerError, Problem
from twin.aws.base.handler import Values, known
from twin.aws.eks import lookup
from twin.aws.eks.access_policies import POLICIES
from twin.aws.eks.recorded import RecordedHandler, now
from twin.aws.iam import trust

API_MODES = ("API", "API_AND_CONFIG_MAP")
"""The authentication modes with access entries."""
_ENTRY_TYPES = ("STANDARD", "EC2_LINUX", "EC2_WINDOWS", "FARGATE_LINUX", "EC2", "HYBRID_LINUX", "HYPERPOD_LINUX")
_PRINCIPAL = re.compile(r"arn:aws[a-z-]*:iam::\d{12}:(role|user)/.+")
_POLICY = re.compile(r"arn:aws[a-z-]*:eks::aws:cluster-access-policy/(?P<name>\w+)")
_NAMESPACES = re.compile(r"[a-z0-9*]([a-z0-9*-]{0,61}[a-z0-9*])?")
"""One namespace, or several by wildcards: https://docs.aws.amazon.com/eks/latest/userguide/access-policies.html."""


def let_creator_in(clients: Clients, cluster: str) -> None:
    """Record the access entry that EKS makes for whoever creates a cluster: docs/facts/eks.md#creator-is-administrator."""
    principal = _principal(clients, clients("sts").get_caller_identity()["Arn"])
    policy = f"arn:{clients.partition}:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
    entry = {"clusterName": cluster, "principalArn": principal}
    AccessEntry().create(clients, {**entry, "type": "STANDARD"})
    AccessPolicyAssociation().create(clients, {**entry, "policyArn": policy, "accessScope": {"type": "cluster"}})


def _principal(clients: Clients, caller: str) -> str:
    """Return the principal of an access entry for a caller: of a role's session the role, with its path."""
    _, is_session, session = caller.partition(":assumed-role/")
    if not is_session:
        return caller
    arn: str = clients("iam").get_role(RoleName=session.partition("/")[0])["Role"]["Arn"]
    return arn


def effective_role(clients: Clients, cluster: str, namespace: str, account: str) -> str | None:
    """Return the role of a service account's Pod Identity association, None while there is none or it has no effect yet."""
    name = lookup.record_name(cluster, PodIdentityAssociation.kind, namespace, account)
    found = records.get(clients, name)
    if found is None or records.age(clients, name) < late.seconds(clients, "pod-identity"):
        return None
    return str(found["roleArn"])


class AccessEntry(RecordedHandler):
    token = "aws:eks/accessEntry:AccessEntry"
    kind = "access-entries"
    exists = "The specified access entry resource is already in use on this cluster."
    inputs = frozenset({"clusterName", "kubernetesGroups", "principalArn", "tags", "type", "userName"})
    defaults: ClassVar[Values] = {"type": "STANDARD"}
    computed = frozenset({"accessEntryArn", "createdAt", "modifiedAt"})
    replace_on = frozenset({"clusterName", "principalArn", "type"})

    def key(self, values: Values) -> tuple[str, ...]:
        return (values["principalArn"],)

    def where(self, values: Values) -> str:
        return f"access entry of {values['principalArn']} to {values['clusterName']}"

    def rules(self, inputs: Values) -> Iterable[Problem]:
        if known(inputs, "type") not in (None, *_ENTRY_TYPES):
            yield Problem("type", f"{inputs['type']!r} is not one of {', '.join(_ENTRY_TYPES)}")
        principal = known(inputs, "principalArn")
        if principal is not None and not _PRINCIPAL.fullmatch(principal):
            yield Problem("principalArn", f"{principal!r} is not the ARN of an IAM role or user")
        for group in known(inputs, "kubernetesGroups") or ():
            if group.startswith("system:"):
                yield Problem("kubernetesGroups", f"{group!r}: groups that begin with system: are not allowed")

    def check_references(self, clients: Clients, inputs: Values) -> None:
        mode = lookup.record(clients, inputs["clusterName"]).get("accessConfig", {}).get("authenticationMode")
        if mode not in API_MODES:
            raise HandlerError(f"{self.where(inputs)}: the cluster's authentication mode is {mode or 'CONFIG_MAP'}, not API")
        principal = inputs["principalArn"]
        if f":{clients.account_id}:role/" in principal:
            trust.require_role(clients, principal, self.where(inputs))

    def computed_values(self, clients: Clients, inputs: Values) -> Values:
        stamp = now()
        digest = records.path(inputs["principalArn"]).removeprefix("/twin/")
        return {
            "accessEntryArn": clients.arn("eks", f"access-entry/{inputs['clusterName']}/{digest}"),
            "createdAt": stamp,
            "modifiedAt": stamp,
        }

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        super().delete(clients, id, state)
        # EKS drops the policy associations of an entry together with it.
        associations = lookup.record_name(state["clusterName"], AccessPolicyAssociation.kind, state["principalArn"])
        for name in records.below(clients, associations):
            records.delete(clients, name)


class AccessPolicyAssociation(RecordedHandler):
    token = "aws:eks/accessPolicyAssociation:AccessPolicyAssociation"
    kind = "access-policies"
    exists = "The specified policy is already associated with the access entry."
    inputs = frozenset({"accessScope", "clusterName", "policyArn", "principalArn"})
    computed = frozenset({"associatedAt", "modifiedAt"})
    replace_on = inputs
    delete_before_replace = True
    id_separator = "#"

    def key(self, values: Values) -> tuple[str, ...]:
        return values["principalArn"], values["policyArn"]

    def where(self, values: Values) -> str:
        return f"access policy of {values['principalArn']} in {values['clusterName']}"

    def rules(self, inputs: Values) -> Iterable[Problem]:
        policy = known(inputs, "policyArn")
        match = _POLICY.fullmatch(policy) if policy else None
        if policy is not None and (match is None or match["name"] not in POLICIES):
            known_policies = ", ".join(f"arn:aws:eks::aws:cluster-access-policy/{name}" for name in POLICIES)
            yield Problem("policyArn", f"{policy!r} is not one of {known_policies}")
        scope = known(inputs, "accessScope") or {}
        if scope.get("type") == "namespace":
            if not scope.get("namespaces"):
                yield Problem("accessScope.namespaces", "required for the scope namespace")
            for name in scope.get("namespaces") or ():
                if isinstance(name, str) and not _NAMESPACES.fullmatch(name):
                    yield Problem("accessScope.namespaces", f"{name!r} is not a namespace")
        elif scope.get("type") == "cluster":
            if scope.get("namespaces"):
                yield Problem("accessScope.namespaces", "not with the scope cluster")
        elif scope:
            yield Problem("accessScope.type", f"{scope.get('type')!r} is not cluster or namespace")

    def check_references(self, clients: Clients, inputs: Values) -> None:
        entry = lookup.record_name(inputs["clusterName"], AccessEntry.kind, inputs["principalArn"])
        if records.get(clients, entry) is None:
            raise HandlerError(f"{self.where(inputs)}: the principal has no access entry")

    def computed_values(self, clients: Clients, inputs: Values) -> Values:
        stamp = now()
        return {"associatedAt": stamp, "modifiedAt": stamp}


class PodIdentityAssociation(RecordedHandler):
    token = "aws:eks/podIdentityAssociation:PodIdentityAssociation"
    kind = "pod-identities"
    exists = "Association already exists."
    inputs = frozenset({"clusterName", "namespace", "roleArn", "serviceAccount", "tags"})
    computed = frozenset({"associationArn", "associationId"})
    replace_on = frozenset({"clusterName", "namespace", "serviceAccount"})

    def key(self, values: Values) -> tuple[str, ...]:
        return values["namespace"], values["serviceAccount"]

    def where(self, values: Values) -> str:
        return f"pod identity of {values['namespace']}/{values['serviceAccount']} in {values['clusterName']}"

    def check_references(self, clients: Clients, inputs: Values) -> None:
        trust.require_role(clients, inputs["roleArn"], self.where(inputs), service="pods.eks.amazonaws.com")

    def computed_values(self, clients: Clients, inputs: Values) -> Values:
        id = "a-" + records.path("/".join(self.key(inputs))).removeprefix("/twin/")[:17]
        arn = clients.arn("eks", f"podidentityassociation/{inputs['clusterName']}/{id}")
        return {"associationArn": arn, "associationId": id}
