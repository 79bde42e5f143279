"""Pod Identity of each stack's workloads: role, association, pods, and the change from IRSA."""

from __future__ import annotations

import json
from typing import Any

from tests.system.component.engine.recording import Registration
from tests.system.component.engine.stack_run import StackRun

ASSOCIATION = "aws:eks/podIdentityAssociation:PodIdentityAssociation"
ROLE = "aws:iam/role:Role"
BY_IRSA = {
    *("client-keys-reader", "cluster-autoscaler-controller", "collector-xray", "container-logs-sender"),
    *("load-balancer-controller", "monitoring-alertmanager", "monitoring-prometheus", "worker"),
}
"""The components whose pods assumed a role through IRSA before: their roles were called `<name>-role`."""


def associations(stack_run: StackRun) -> dict[tuple[str, str], Registration]:
    """Return the associations by namespace and service account."""
    return {(one.checked["namespace"], one.checked["serviceAccount"]): one for one in stack_run.up.of_type(ASSOCIATION)}


def users(stack_run: StackRun) -> dict[tuple[str, str], Registration]:
    """Return the releases and Deployments by the service accounts of their pods."""
    found: dict[tuple[str, str], Registration] = {}
    for item in stack_run.up.of_type("kubernetes:helm.sh/v3:Release"):
        for account in accounts(item.checked["values"]):
            found[item.checked["namespace"], account] = item
    for item in stack_run.up.of_type("kubernetes:apps/v1:Deployment"):
        account = item.checked["spec"]["template"]["spec"].get("serviceAccountName", "default")
        found[item.checked["metadata"]["namespace"], account] = item
    return found


def accounts(values: Any) -> list[str]:
    """Return the names of all service accounts in a chart's values."""
    if not isinstance(values, dict):
        return []
    own = values.get("serviceAccount") or {}
    name = [str(own["name"])] if isinstance(own, dict) and "name" in own else []
    return name + [one for value in values.values() for one in accounts(value)]


def waits(stack_run: StackRun, item: Registration) -> set[str]:
    """Return the URNs that a resource and its parent components depend on."""
    by_urn = {one.urn: one for one in stack_run.up.registrations}
    found = set(item.depends_on)
    while item.parent in by_urn:
        item = by_urn[item.parent]
        found |= set(item.depends_on)
    return found


def test_each_association_is_there_before_the_pods_and_its_role_trusts_them_alone(stack_run: StackRun) -> None:
    by_account, pods = associations(stack_run), users(stack_run)
    roles = {role.outputs["arn"]: role for role in stack_run.up.of_type(ROLE)}
    for (namespace, account), association in by_account.items():
        (statement,) = json.loads(roles[association.checked["roleArn"]].checked["assumeRolePolicy"])["Statement"]
        tags = statement["Condition"]["StringEquals"]
        assert tags["aws:RequestTag/kubernetes-namespace"] == namespace
        assert tags["aws:RequestTag/kubernetes-service-account"] == account
        if account != "karpenter":  # its CRDs are in between: test_autoscaling.py
            assert association.urn in waits(stack_run, pods[namespace, account]), account


def test_each_association_waits_for_its_cluster(stack_run: StackRun) -> None:
    (cluster,) = stack_run.up.of_type("aws:eks/cluster:Cluster")
    for association in stack_run.up.of_type(ASSOCIATION):
        assert cluster.urn in association.sources["clusterName"], association.name


def test_no_pod_with_an_association_has_a_role_by_irsa_as_well(stack_run: StackRun) -> None:
    pods = users(stack_run)
    for key in associations(stack_run):
        assert "eks.amazonaws.com/role-arn" not in json.dumps(pods[key].checked)
    annotated = [
        (item.checked["metadata"]["namespace"], item.checked["metadata"]["name"])
        for item in stack_run.up.of_type("kubernetes:core/v1:ServiceAccount")
        if "eks.amazonaws.com/role-arn" in (item.checked["metadata"].get("annotations") or {})
    ]
    assert not set(annotated) & associations(stack_run).keys()


def test_an_upgrade_from_irsa_leaves_running_pods_their_role_until_it_ends(stack_run: StackRun) -> None:
    """The engine deletes unregistered resources last, so the new roles need other URNs."""
    for association in stack_run.up.of_type(ASSOCIATION):
        component = association.name.removesuffix("-association")
        if component not in BY_IRSA:
            continue
        role = stack_run.up.one(ROLE, f"{component}-role-pods")
        assert role.outputs["arn"] == association.checked["roleArn"]
        assert not [urn for urn in role.aliases if urn.endswith(f"::{component}-role")]
        assert not [item for item in stack_run.up.of_type(ROLE) if item.name == f"{component}-role"]
