"""The recorded release under the present program: what is replaced or deleted stands in a reviewed list, with a reason."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from stackctl.review import consequences
from tests.paths import ROOT
from tests.system.component.engine.stack_run import STACKS
from tests.system.upgrade import accepted, release
from tests.system.upgrade.accepted import AcceptedUnreadable
from tests.system.upgrade.comparison import findings

GUARDED = {
    "aws:ec2/natGateway:NatGateway",
    "aws:ec2/subnet:Subnet",
    "aws:ec2/vpc:Vpc",
    "aws:eks/accessPolicyAssociation:AccessPolicyAssociation",
    "aws:eks/cluster:Cluster",
    "aws:eks/nodeGroup:NodeGroup",
    "aws:iam/openIdConnectProvider:OpenIdConnectProvider",
    "aws:kms/key:Key",
    "aws:s3/bucket:Bucket",
    "aws:sqs/queue:Queue",
    "kubernetes:apps/v1:Deployment",
    "kubernetes:core/v1:Namespace",
    "kubernetes:core/v1:PersistentVolumeClaim",
    "kubernetes:core/v1:Service",
    "kubernetes:gateway.networking.k8s.io/v1:Gateway",
    "kubernetes:helm.sh/v3:Release",
    "kubernetes:karpenter.sh/v1:NodePool",
    "pulumi:providers:kubernetes",
}
"""The types that keep something, or serve."""


@pytest.mark.parametrize("stack", STACKS)
def test_nothing_is_replaced_or_deleted_unnoticed(stack: str) -> None:
    reviewed = accepted.read()
    unnoticed = [
        str(finding)
        for finding in findings(release.recorded(stack), release.present(stack))
        if not any(one.covers(stack, finding) for one in reviewed)
    ]
    assert unnoticed == [], (
        f"an `up` of {stack} would do this to what {release.revision()[:12]} has made. Where a resource was only renamed or "
        f"moved, give it `aliases`; where it is meant, write it into {accepted.FILE.name}, with the reason"
    )


def test_nothing_is_accepted_that_does_not_happen() -> None:
    happening = {stack: findings(release.recorded(stack), release.present(stack)) for stack in STACKS}
    stale = [
        f"{stack}: {one.action} {resource}"
        for one in accepted.read()
        for stack in one.stacks
        for resource in one.resources
        if not any((finding.action, finding.resource) == (one.action, resource) for finding in happening.get(stack, ()))
    ]
    assert stale == []


def test_what_keeps_something_or_serves_is_guarded() -> None:
    assert consequences.types() >= GUARDED


def test_a_list_without_reasons_is_refused_with_all_problems(tmp_path: Path) -> None:
    path = tmp_path / "accepted.yaml"
    path.write_text("- {stacks: [], action: lose, resources: [x], reason: fine}\n- {stacks: [dev]}\n")
    with pytest.raises(AcceptedUnreadable) as caught:
        accepted.read(path)
    assert str(caught.value) == (
        "accepted.yaml: entry 1: stacks: a list of names; entry 1: action: 'lose' is neither replace nor delete; "
        "entry 1: reason: a sentence that says what goes down and why that is right; "
        "entry 2: has the keys action, reason, resources, stacks and no others"
    )


def test_recording_a_revision_copies_its_snapshots_and_empties_the_list(tmp_path: Path) -> None:
    reviewed = tmp_path / "accepted.yaml"
    reviewed.write_text("# how it is written\n- {stacks: [dev]}\n")
    commit = release.record("HEAD", tmp_path / "recorded", reviewed)
    assert sorted(path.name for path in (tmp_path / "recorded").iterdir()) == sorted(
        [*(f"{stack}.json" for stack in STACKS), "release.json"]
    )
    shown = subprocess.run(
        ["git", "show", f"{commit}:{release.SNAPSHOTS}/dev.json"], cwd=ROOT, capture_output=True, check=True
    )
    assert (tmp_path / "recorded" / "dev.json").read_bytes() == shown.stdout
    assert reviewed.read_text() == "# how it is written\n[]\n"


def test_what_git_does_not_know_is_not_recorded(tmp_path: Path) -> None:
    with pytest.raises(release.NotRecorded, match="no-such-tag"):
        release.record("no-such-tag", tmp_path / "recorded", tmp_path / "accepted.yaml")
    assert list(tmp_path.iterdir()) == []
