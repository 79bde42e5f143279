"""Reports of unhealthy node groups and add-ons. On the real engine: system/e2e/test_half_created.py."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.stub import Stubber

from console import pulumi_program
from spec.settings import Settings
from stackctl import eks_health
from stackctl.account.read_only import Readers
from stackctl.preflight.checks import half_created
from stackctl.preflight.checks.check import Finding, Status, Subject
from tests.aws_environment import use_none_of_the_developers
from tests.spec.existing_config import IN_A_CLUSTER
from tests.spec.stack_config import settings

CLUSTER = {"clusterName": "triton-staging"}
GROUP = "urn:pulumi:staging::triton-eks::triton:nodes:Nodes$aws:eks/nodeGroup:NodeGroup::nodes-pool-g5-group"
SPOT = "Could not launch Spot Instances. UnfulfillableCapacity - Unable to fulfill capacity."
AT = datetime(2026, 11, 27, 10, 30, tzinfo=UTC)


class Aws:
    """Readers with scripted answers, checked against botocore's model of the service."""

    def __init__(self, readers: Readers) -> None:
        self.readers, self.cluster = readers, CLUSTER
        self.eks, self.autoscaling = (Stubber(readers(name)) for name in ("eks", "autoscaling"))
        self.eks.activate()
        self.autoscaling.activate()

    def groups(self, *groups: dict[str, Any]) -> Aws:
        names = [group["nodegroupName"] for group in groups]
        self.eks.add_response("list_nodegroups", {"nodegroups": names}, self.cluster)
        for group in groups:
            self.eks.add_response("describe_nodegroup", {"nodegroup": group}, None)
        return self

    def add_ons(self, *addons: dict[str, Any]) -> Aws:
        self.eks.add_response("list_addons", {"addons": [one["addonName"] for one in addons]}, self.cluster)
        for one in addons:
            self.eks.add_response("describe_addon", {"addon": one}, {**self.cluster, "addonName": one["addonName"]})
        return self

    def activity(self, status: str | None, message: str = "") -> Aws:
        one = {"ActivityId": "1", "AutoScalingGroupName": "eks-g5", "Cause": "a difference", "StartTime": AT}
        found = [] if status is None else [{**one, "StatusCode": status, "StatusMessage": message or "-"}]
        asked = {"AutoScalingGroupName": "eks-g5", "MaxRecords": 1}
        self.autoscaling.add_response("describe_scaling_activities", {"Activities": found}, asked)
        return self


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Aws]:
    use_none_of_the_developers(monkeypatch, tmp_path)
    found = Aws(Readers("us-west-2", eks_health.OPERATIONS))
    yield found
    found.eks.assert_no_pending_responses()
    found.autoscaling.assert_no_pending_responses()


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the stack's state one node group, and a former one whose deletion is pending."""
    kept = {"urn": GROUP, "type": "aws:eks/nodeGroup:NodeGroup", "id": "triton-staging:g5"}
    exported = {"deployment": {"resources": [kept, {**kept, "id": "triton-staging:before", "delete": True}]}}
    done = SimpleNamespace(returncode=0, stdout=json.dumps(exported), stderr="")
    monkeypatch.setattr(pulumi_program, "ask", lambda _arguments: done)


@pytest.fixture
def no_state(monkeypatch: pytest.MonkeyPatch) -> None:
    done = SimpleNamespace(returncode=255, stdout="", stderr="error: no stack")
    monkeypatch.setattr(pulumi_program, "ask", lambda _arguments: done)


def group(status: str = "ACTIVE", name: str = "g5", *issues: str) -> dict[str, Any]:
    health = {"issues": [{"code": "AsgInstanceLaunchFailures", "message": issue, "resourceIds": []} for issue in issues]}
    resources = {"autoScalingGroups": [{"name": "eks-g5"}]}
    found = {"nodegroupName": name, **CLUSTER, "status": status, "health": health, "resources": resources}
    return {**found, "labels": {"triton-eks/pool": "g5"}}


def addon(status: str = "ACTIVE", *issues: str) -> dict[str, Any]:
    found = [{"code": "InsufficientNumberOfReplicas", "message": issue, "resourceIds": []} for issue in issues]
    return {"addonName": "coredns", **CLUSTER, "status": status, "health": {"issues": found}}


def told(aws: Aws, the_stack: Settings | None = None) -> list[str]:
    own = the_stack or settings()
    return [eks_health.report(one, own) for one in eks_health.ailments(aws.readers, own)]


def test_a_cluster_that_is_well_says_nothing(aws: Aws) -> None:
    assert told(aws.groups(group()).activity("Successful").add_ons(addon())) == []


def test_a_stack_that_is_not_up_says_nothing(aws: Aws) -> None:
    aws.eks.add_client_error("list_nodegroups", "ResourceNotFoundException")
    assert told(aws) == []


@pytest.mark.usefixtures("state")
def test_a_group_that_eks_still_waits_for_says_why_its_first_launch_failed(aws: Aws) -> None:
    """Its health has no issue for half an hour."""
    aws.groups(group("CREATING")).activity("Failed", SPOT).add_ons()
    (said,) = told(aws)
    assert said.startswith(
        f"node group g5 is CREATING: last scaling activity Failed at 2026-11-27 10:30Z: {SPOT}; EKS tries "
    )


@pytest.mark.usefixtures("state")
def test_a_failed_group_is_replaced_by_its_quoted_urn(aws: Aws) -> None:
    aws.groups(group("CREATE_FAILED", "g5", SPOT)).activity("Failed", SPOT).add_ons()
    assert told(aws) == [
        f"node group g5 is CREATE_FAILED: AsgInstanceLaunchFailures: {SPOT}; last scaling activity Failed at "
        f"2026-11-27 10:30Z: {SPOT}; another `pulumi up` does not repair it: remove the cause, or change "
        "stacks/Pulumi.staging.yaml, then "
        f"`pulumi up --stack staging --replace '{GROUP}'`"
    ]


@pytest.mark.usefixtures("no_state")
def test_without_the_state_the_group_is_deleted_and_found_missing(aws: Aws) -> None:
    aws.groups(group("CREATE_FAILED")).activity(None).add_ons()
    assert told(aws) == [
        "node group g5 is CREATE_FAILED: EKS reports no issue; another `pulumi up` does not repair it: remove the cause, or "
        "change stacks/Pulumi.staging.yaml, then `aws eks delete-nodegroup --nodegroup-name g5 --cluster-name "
        "triton-staging --region us-west-2`, `aws eks wait nodegroup-deleted --nodegroup-name g5 --cluster-name "
        "triton-staging --region us-west-2`, then `pulumi up --refresh --stack staging`"
    ]


@pytest.mark.usefixtures("state")
def test_a_resource_that_is_only_to_be_deleted_has_no_urn() -> None:
    assert eks_health.state_urns("staging") == {("aws:eks/nodeGroup:NodeGroup", "triton-staging:g5"): GROUP}


@pytest.mark.usefixtures("no_state")
def test_who_may_not_read_activities_still_sees_the_issues(aws: Aws) -> None:
    aws.groups(group("DEGRADED", "g5", SPOT)).add_ons(addon("DEGRADED", "no replicas"))
    aws.autoscaling.add_client_error("describe_scaling_activities", "AccessDenied", "no")
    first, second = told(aws)
    assert f"AsgInstanceLaunchFailures: {SPOT}; its last scaling activity cannot be read (" in first
    assert second.startswith(
        "add-on coredns is DEGRADED: InsufficientNumberOfReplicas: no replicas; EKS tries again by itself"
    )


def found_by_preflight(aws: Aws) -> list[Finding]:
    return list(half_created.check(Subject(settings(), aws.readers, None)))  # type: ignore[arg-type]  # it asks nobody's name


@pytest.mark.usefixtures("state")
def test_preflight_fails_for_what_stays_failed_and_warns_of_what_may_heal(aws: Aws) -> None:
    aws.groups(group("CREATE_FAILED", "g5", SPOT)).activity(None).add_ons(addon("DEGRADED", "no replicas"))
    first, second = found_by_preflight(aws)
    assert (first.status, second.status) == (Status.FAIL, Status.WARN)
    assert first.message == f"node group g5 is CREATE_FAILED: AsgInstanceLaunchFailures: {SPOT}"
    assert first.remedy.endswith(f"`pulumi up --stack staging --replace '{GROUP}'`")


@pytest.mark.usefixtures("no_state")
def test_in_an_existing_cluster_the_groups_of_an_unreadable_state_are_unknown(aws: Aws) -> None:
    aws.cluster = {"clusterName": "shared"}
    aws.groups(group("CREATE_FAILED")).activity(None).add_ons()
    (finding,) = half_created.check(Subject(settings(IN_A_CLUSTER), aws.readers, None))  # type: ignore[arg-type]
    assert (finding.status, finding.message) == (
        Status.UNKNOWN,
        "a node group or an add-on of shared is not healthy, and whether it is the stack's is not known: the state "
        "of staging cannot be read: error: no stack",
    )


def test_preflight_is_content_with_a_stack_that_is_well(aws: Aws) -> None:
    aws.groups(group()).activity("Successful").add_ons(addon())
    assert found_by_preflight(aws) == [Finding(Status.OK, "no node group and no add-on has failed")]
