"""A stack whose models are on FSx for Lustre: file system, link to the bucket, allowed traffic, volume, and their order."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from infra import app
from spec.settings import load
from spec.versions import PROJECT
from tests.bootstrap import aws_calls
from tests.bootstrap.roles import PREVIEW, deploy
from tests.paths import ROOT
from tests.system.component.engine.account import fresh_account, living, seed_roles
from tests.system.component.engine.lifecycle import Refresh, destroy, refresh
from tests.system.component.engine.program import run
from tests.system.component.engine.recording import Recording
from tests.system.component.engine.stack_run import TODAY, required_config
from twin.aws.base.clients import Clients
from twin.aws.iam.authorization import refusals

STACK = "staging"
BUCKET = "triton-models-staging-123456789012-us-west-2"
FILE_SYSTEM = "aws:fsx/lustreFileSystem:LustreFileSystem"
LINK = "aws:fsx/dataRepositoryAssociation:DataRepositoryAssociation"
INGRESS = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"
EGRESS = "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule"
ADDON = "aws:eks/addon:Addon"
VOLUME = "kubernetes:core/v1:PersistentVolume"
CLAIM = "kubernetes:core/v1:PersistentVolumeClaim"


def config() -> dict[str, Any]:
    """Return staging without optional sections, with Triton only in the second zone and a file system."""
    found = required_config(ROOT, STACK)
    found[f"{PROJECT}:nodes"] = {"system": found[f"{PROJECT}:nodes"]["system"]}
    found[f"{PROJECT}:cluster"]["deletionProtection"] = False
    found[f"{PROJECT}:network"]["zones"] = ["us-west-2a", "us-west-2b"]
    found[f"{PROJECT}:gpu"]["pools"][0] |= {"min": 1, "desired": 2, "zones": ["us-west-2b"]}
    found[f"{PROJECT}:triton"] = {**found[f"{PROJECT}:triton"], "autoscaler": "none", "replicas": 2}
    del found[f"{PROJECT}:models"]["fetcher"]
    found[f"{PROJECT}:models"] |= {"access": "fsx-lustre", "fsx": {"storageGiB": 2400, "throughputMBsPerTiB": 250}}
    found[f"{PROJECT}:models"]["readerAccounts"] = ["222222222222", "333333333333"]
    return found


@dataclass(frozen=True)
class Life:
    up: Recording
    refreshed: Refresh
    left: dict[str, list[str]]


@pytest.fixture(scope="module")
def life() -> Iterator[Life]:
    """Bring up, record and destroy the stack in a separate moto account."""
    settings = load(config(), STACK, today=TODAY)
    with fresh_account(), contextlib.chdir(ROOT):
        clients = Clients(settings.region)
        seed_roles(clients, settings.cluster)
        before = living(clients)
        up = run(lambda: app.deploy(settings), project=PROJECT, stack=STACK, config=config(), root=ROOT, clients=clients)
        refreshed = refresh(clients, up)
        destroy(clients, up)
        after = living(clients)
    yield Life(
        up, refreshed, {kind: left for kind in after if (left := sorted(set(after[kind]) - set(before.get(kind, ()))))}
    )


@pytest.fixture
def up(life: Life) -> Recording:
    return life.up


def test_it_is_a_persistent_cache_without_backups_in_a_zone_of_triton_with_the_key_of_the_bucket(up: Recording) -> None:
    made = up.one(FILE_SYSTEM).checked
    wanted = {
        "deploymentType": "PERSISTENT_2",
        "storageType": "SSD",
        "storageCapacity": 2400,
        "perUnitStorageThroughput": 250,
        "automaticBackupRetentionDays": 0,
        "skipFinalBackup": True,
        "weeklyMaintenanceStartTime": "7:09:00",
        "subnetIds": up.one("aws:ec2/subnet:Subnet", "network-private-us-west-2b").id,
        "kmsKeyId": up.one("aws:kms/key:Key", "models-encryption-key").outputs["arn"],
        "securityGroupIds": [up.one("aws:ec2/securityGroup:SecurityGroup", "model-cache-security-group").id],
    }
    assert {key: made[key] for key in wanted} == wanted


def test_it_follows_the_releases_of_the_bucket_and_writes_nothing_back(up: Recording) -> None:
    link = up.one(LINK).checked
    assert (link["fileSystemPath"], link["dataRepositoryPath"]) == ("/releases", f"s3://{BUCKET}/releases/")
    assert link["s3"] == {"autoImportPolicy": {"events": ["NEW", "CHANGED", "DELETED"]}}
    assert link["batchImportMetaDataOnCreate"] is True


def test_lustre_and_nothing_else_goes_between_nodes_and_file_system(up: Recording) -> None:
    own = up.one("aws:ec2/securityGroup:SecurityGroup", "model-cache-security-group").id
    nodes = up.one("aws:eks/cluster:Cluster").outputs["vpcConfig"]["clusterSecurityGroupId"]
    ways = {
        (item.type, rule["securityGroupId"], rule["referencedSecurityGroupId"], rule["fromPort"], rule["toPort"])
        for item in up.of_type(INGRESS, EGRESS)
        if item.name.startswith("model-cache-") and (rule := item.checked)["ipProtocol"] == "tcp"
    }
    pairs = [(INGRESS, own, nodes), (EGRESS, own, nodes), (INGRESS, own, own), (EGRESS, own, own), (INGRESS, nodes, own)]
    assert ways == {(*pair, *ports) for pair in pairs for ports in ((988, 988), (1018, 1023))}


def test_fsx_alone_may_decrypt_the_releases_and_only_through_s3(up: Recording) -> None:
    policy = json.loads(up.one("aws:kms/key:Key", "models-encryption-key").checked["policy"])
    (statement,) = [item for item in policy["Statement"] if item["Sid"] == "FSxReadsThroughS3"]
    roles = "aws-service-role/s3.data-source.lustre.fsx.amazonaws.com/AWSServiceRoleForFSxS3Access_fs-*"
    assert statement["Action"] == ["kms:Decrypt"]
    assert statement["Condition"] == {
        "StringEquals": {"kms:CallerAccount": "123456789012", "kms:ViaService": "s3.us-west-2.amazonaws.com"},
        "ArnLike": {"aws:PrincipalArn": f"arn:aws:iam::123456789012:role/{roles}"},
        "StringLike": {"kms:EncryptionContext:aws:s3:arn": [f"arn:aws:s3:::{BUCKET}", f"arn:aws:s3:::{BUCKET}/*"]},
    }


def test_the_accounts_that_are_named_may_read_the_releases_and_decrypt_them_through_s3(up: Recording) -> None:
    who = {"AWS": ["arn:aws:iam::222222222222:root", "arn:aws:iam::333333333333:root"]}
    bucket = json.loads(up.one("aws:s3/bucketPolicy:BucketPolicy", "models-policy").checked["policy"])
    assert [
        (item["Sid"], item["Action"], item["Resource"], item["Principal"])
        for item in bucket["Statement"]
        if item["Effect"] == "Allow"
    ] == [
        ("OtherAccountsFindReleases", ["s3:ListBucket"], [f"arn:aws:s3:::{BUCKET}"], who),
        ("OtherAccountsReadReleases", ["s3:GetObject"], [f"arn:aws:s3:::{BUCKET}/releases/*"], who),
    ]
    key = json.loads(up.one("aws:kms/key:Key", "models-encryption-key").checked["policy"])
    (decrypts,) = [item for item in key["Statement"] if item["Sid"] == "OtherAccountsDecryptThroughS3"]
    assert (decrypts["Action"], decrypts["Principal"]) == (["kms:Decrypt"], who)
    assert decrypts["Condition"] == {
        "StringEquals": {"kms:ViaService": "s3.us-west-2.amazonaws.com"},
        "StringLike": {"kms:EncryptionContext:aws:s3:arn": [f"arn:aws:s3:::{BUCKET}", f"arn:aws:s3:::{BUCKET}/releases/*"]},
    }


def test_the_volume_is_the_file_system_read_only(up: Recording) -> None:
    made, volume, claim = up.one(FILE_SYSTEM), up.one(VOLUME).checked, up.one(CLAIM).checked
    assert volume["spec"]["csi"] == {
        "driver": "fsx.csi.aws.com",
        "volumeHandle": made.id,
        "volumeAttributes": {"dnsname": made.outputs["dnsName"], "mountname": made.outputs["mountName"]},
    }
    assert volume["spec"]["mountOptions"] == ["ro"]
    # The driver does not accept ReadOnlyMany.
    assert volume["spec"]["accessModes"] == claim["spec"]["accessModes"] == ["ReadWriteMany"]
    assert volume["spec"]["claimRef"] == {key: claim["metadata"][key] for key in ("namespace", "name")}
    assert claim["spec"]["volumeName"] == volume["metadata"]["name"]
    assert claim["spec"]["resources"]["requests"] == volume["spec"]["capacity"]


def test_pods_mount_the_folder_of_their_release_and_have_no_role(up: Recording) -> None:
    release = config()[f"{PROJECT}:models"]["release"]["id"]
    spec = _triton(up).checked["spec"]["template"]["spec"]
    claim = up.one(CLAIM).checked["metadata"]["name"]
    assert {"name": "models", "persistentVolumeClaim": {"claimName": claim, "readOnly": True}} in spec["volumes"]
    (mount,) = [item for item in spec["containers"][0]["volumeMounts"] if item["name"] == "models"]
    assert (mount["subPath"], mount["readOnly"]) == (f"releases/{release}", True)
    account = next(
        item for item in up.of_type("kubernetes:core/v1:ServiceAccount") if item.checked["metadata"]["name"] == "triton"
    )
    assert "eks.amazonaws.com/role-arn" not in (account.checked["metadata"].get("annotations") or {})


def test_the_driver_has_no_role(up: Recording) -> None:
    addon = up.one(ADDON, "addons-aws-fsx-csi-driver").checked
    assert not {"serviceAccountRoleArn", "podIdentityAssociations", "configurationValues"} & addon.keys()


def test_bucket_then_link_then_claim_then_pods(up: Recording) -> None:
    order = [item.urn for item in up.registrations]
    bucket_policy = next(item for item in up.of_type("aws:s3/bucketPolicy:BucketPolicy") if item.name.startswith("models"))
    chain = [bucket_policy, up.one(FILE_SYSTEM), up.one(LINK), up.one(VOLUME), up.one(CLAIM), _triton(up)]
    places = [order.index(item.urn) for item in chain]
    assert places == sorted(places)
    driver = up.one(ADDON, "addons-aws-fsx-csi-driver")
    assert order.index(driver.urn) < order.index(up.one(CLAIM).urn)


def test_the_file_system_waits_for_its_ports_and_the_server_for_the_link(up: Recording) -> None:
    rules = {item.urn for item in up.of_type(INGRESS, EGRESS) if item.name.startswith("model-cache-")}
    assert len(rules) == 10
    assert rules <= set(up.one(FILE_SYSTEM).depends_on)
    # A child has its parent's dependencies, and is deleted before its parent.
    server = up.one("triton:serving:TritonServer")
    assert up.one(LINK).urn in server.depends_on
    assert up.one(VOLUME).parent == server.urn
    assert up.one(VOLUME).urn in up.one(CLAIM).depends_on


def test_a_refresh_finds_what_was_made_and_a_destroy_leaves_nothing(life: Life) -> None:
    assert (life.refreshed.outputs, life.refreshed.inputs) == ([], [])
    assert life.left == {}


def test_a_stack_that_does_not_ask_for_it_has_nothing_of_it(stack_runs: Any) -> None:
    recording = stack_runs("local").up
    assert recording.of_type(FILE_SYSTEM, LINK, VOLUME, CLAIM) == []
    assert [item.name for item in recording.of_type(ADDON) if "fsx" in item.name] == []
    assert all("FSx" not in item.checked["policy"] for item in recording.of_type("aws:kms/key:Key"))


def _triton(up: Recording) -> Any:
    return next(item for item in up.of_type("kubernetes:apps/v1:Deployment") if item.checked["metadata"]["name"] == "triton")


def test_the_roles_of_the_workflows_may_make_and_read_all_of_it(up: Recording) -> None:
    stack = aws_calls.of_recording(up)
    assert list(refusals(deploy("staging"), aws_calls.calls(stack))) == []
    assert list(refusals(PREVIEW, aws_calls.reads(stack))) == []


def test_s3_refuses_to_replace_an_object_of_a_release(up: Recording) -> None:
    bucket = json.loads(up.one("aws:s3/bucketPolicy:BucketPolicy", "models-policy").checked["policy"])
    (once,) = [item for item in bucket["Statement"] if item["Sid"] == "ReleasesAreWrittenOnce"]
    assert once == {
        "Sid": "ReleasesAreWrittenOnce",
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:PutObject",
        "Resource": [f"arn:aws:s3:::{BUCKET}/releases/*"],
        "Condition": {"Null": {"s3:if-none-match": "true"}, "Bool": {"s3:ObjectCreationOperation": "true"}},
    }
