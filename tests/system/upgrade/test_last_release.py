"""The recorded release under the present program: nothing that stores data or serves is replaced or deleted."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from stackctl.review import consequences
from tests.paths import ROOT
from tests.system.component.engine.stack_run import STACKS
from tests.system.upgrade import release
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
"""The types that store data, or serve."""


@pytest.mark.parametrize("stack", STACKS)
def test_nothing_is_replaced_or_deleted_unnoticed(stack: str) -> None:
    lost = [str(finding) for finding in findings(release.recorded(stack), release.present(stack))]
    assert lost == [], (
        f"an `up` of {stack} would do this to what {release.revision()[:12]} has made. Where a resource was only renamed or "
        "moved, give it `aliases`; where it is meant, write into CHANGELOG.md what goes down, and run `make record-release`"
    )


def test_what_keeps_something_or_serves_is_guarded() -> None:
    assert consequences.types() >= GUARDED


def test_a_record_is_the_snapshots_of_the_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release, "RECORD", tmp_path / "recorded.txt")
    commit = release.record(release.RECORD)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, check=True, text=True)
    assert commit == release.revision(release.RECORD) == head.stdout.strip()
    for stack in STACKS:
        assert findings(release.recorded(stack), release.present(stack)) == []
    assert release.recorded("dev").labels == release.present("dev").labels


def test_snapshots_that_are_not_committed_are_not_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = "tests/system/component/snapshots"
    said = {("status", "--porcelain", "--", str(ROOT / folder)): f" M {folder}/dev.json\n?? {folder}/new.json\n"}
    monkeypatch.setattr(release, "_git", lambda *arguments: said[arguments])
    with pytest.raises(release.NotRecorded) as refused:
        release.record(tmp_path / "recorded.txt")
    assert str(refused.value) == f"commit the snapshots first: M {folder}/dev.json ?? {folder}/new.json"
    assert list(tmp_path.iterdir()) == []
