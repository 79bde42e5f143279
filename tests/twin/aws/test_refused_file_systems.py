"""Mistakes in file systems of FSx for Lustre and in their links to buckets that AWS refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.twin.aws.refusals import Refusal, check, ids
from tests.twin.aws.world import BUCKET, GROUP, INGRESS, KEY, World, network, other_network
from twin.aws.base.clients import Clients
from twin.aws.base.errors import HandlerError, InvalidInputs

FILE_SYSTEM = "aws:fsx/lustreFileSystem:LustreFileSystem"
LINK = "aws:fsx/dataRepositoryAssociation:DataRepositoryAssociation"
EGRESS = "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule"
ENCRYPTION = "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration"
WHERE = "file system of FSx for Lustre"


@pytest.fixture(scope="module")
def world(clients: Clients) -> Iterator[World]:
    world = World(clients)
    network(world)
    other_network(world)
    world.make(KEY, "key", policy=_key_policy("AWSServiceRoleForFSxS3Access_fs-*"))
    world.make(KEY, "closed-key", policy=_key_policy("somebody-else"))
    world.make(GROUP, "open", vpcId=world.id("vpc"), description="lustre")
    for kind in (INGRESS, EGRESS):
        own = {"securityGroupId": world.id("open"), "referencedSecurityGroupId": world.id("open")}
        world.make(kind, kind, **own, ipProtocol="tcp", fromPort=988, toPort=988)
    for name, key in (("models", "key"), ("closed", "closed-key")):
        world.make(BUCKET, name, bucket=f"{name}-of-somebody")
        default = {"sseAlgorithm": "aws:kms", "kmsMasterKeyId": world.arn(key)}
        world.make(
            ENCRYPTION,
            f"{name}-encryption",
            bucket=world.id(name),
            rules=[{"applyServerSideEncryptionByDefault": default}],
        )
    world.make(FILE_SYSTEM, "system", **_system(world, tags={"owner": "me"}))
    world.make(FILE_SYSTEM, "saved", **_system(world, automaticBackupRetentionDays=7))
    world.make(LINK, "link", **_link(world))
    yield world


def _key_policy(role: str) -> str:
    manage = {
        "Effect": "Allow",
        "Principal": {"AWS": "arn:aws:iam::123456789012:root"},
        "Action": "kms:*",
        "Resource": "*",
    }
    read = {
        "Effect": "Allow",
        "Principal": {"AWS": "*"},
        "Action": ["kms:Decrypt"],
        "Resource": "*",
        "Condition": {"ArnLike": {"aws:PrincipalArn": f"arn:aws:iam::123456789012:role/{role}"}},
    }
    return json.dumps({"Version": "2012-10-17", "Statement": [manage, read]})


def _system(world: World, **changes: Any) -> dict[str, Any]:
    inputs = {
        "deploymentType": "PERSISTENT_2",
        "storageType": "SSD",
        "storageCapacity": 1200,
        "perUnitStorageThroughput": 125,
        "subnetIds": world.id("subnet-a"),
        "securityGroupIds": [world.id("open")],
        "kmsKeyId": world.arn("key"),
        "weeklyMaintenanceStartTime": "7:09:00",
        **changes,
    }
    return {key: value for key, value in inputs.items() if value is not None}


def _link(world: World, **changes: Any) -> dict[str, Any]:
    return {
        "fileSystemId": world.id("system"),
        "fileSystemPath": "/releases",
        "dataRepositoryPath": "s3://models-of-somebody/releases/",
        "s3": {"autoImportPolicy": {"events": ["NEW", "CHANGED", "DELETED"]}},
        **changes,
    }


FILE_SYSTEMS = [
    Refusal(
        "a size that FSx does not make",
        FILE_SYSTEM,
        lambda w: _system(w, storageCapacity=3600),
        f"{FILE_SYSTEM}: storageCapacity: 3600 GiB is neither 1200 nor a multiple of 2400",
    ),
    Refusal(
        "a throughput of the generation before",
        FILE_SYSTEM,
        lambda w: _system(w, perUnitStorageThroughput=200),
        f"{FILE_SYSTEM}: perUnitStorageThroughput: 200 is not one of 125, 250, 500, 1000",
    ),
    Refusal(
        "a kind that the twin does not have",
        FILE_SYSTEM,
        lambda w: _system(w, deploymentType="SCRATCH_2"),
        f"{FILE_SYSTEM}: deploymentType: 'SCRATCH_2'; the twin has PERSISTENT_2 alone",
    ),
    Refusal(
        "the key of AWS instead of one of our own",
        FILE_SYSTEM,
        lambda w: _system(w, kmsKeyId=None),
        f"{FILE_SYSTEM}: kmsKeyId: required: what AWS would choose here is not for this program",
    ),
    Refusal(
        "a day that the week does not have",
        FILE_SYSTEM,
        lambda w: _system(w, weeklyMaintenanceStartTime="8:09:00"),
        f"{FILE_SYSTEM}: weeklyMaintenanceStartTime: '8:09:00' is not like 7:09:00 (day, 1 is Monday, and time)",
    ),
    Refusal(
        "backups for longer than FSx keeps them",
        FILE_SYSTEM,
        lambda w: _system(w, automaticBackupRetentionDays=91),
        f"{FILE_SYSTEM}: automaticBackupRetentionDays: 91 days is not within 0-90",
    ),
    Refusal(
        "a subnet that does not exist",
        FILE_SYSTEM,
        lambda w: _system(w, subnetIds="subnet-0"),
        f"{WHERE}: subnet subnet-0 does not exist in us-west-2",
    ),
    Refusal(
        "a key that does not exist",
        FILE_SYSTEM,
        lambda w: _system(w, kmsKeyId="arn:aws:kms:us-west-2:123456789012:key/none"),
        f"{WHERE}: KMS key arn:aws:kms:us-west-2:123456789012:key/none does not exist or is pending deletion",
    ),
    Refusal(
        "a group of another network",
        FILE_SYSTEM,
        lambda w: _system(w, securityGroupIds=[w.id("other-group")]),
        f"{WHERE}: security group {{other-group}} is in {{other-vpc}}, the subnet in {{vpc}}",
    ),
    Refusal(
        "a group that does not let Lustre through",
        FILE_SYSTEM,
        lambda w: _system(w, securityGroupIds=[w.id("group")]),
        f"{WHERE}: the security groups {{group}} do not permit Lustre LNET network traffic on port 988 among themselves "
        "(yet); make it depend on their rules",
    ),
]
LINKS = [
    Refusal(
        "a path that is none",
        LINK,
        lambda w: _link(w, fileSystemPath="releases/"),
        f"{LINK}: fileSystemPath: 'releases/' is not like /releases",
    ),
    Refusal(
        "a bucket without its scheme",
        LINK,
        lambda w: _link(w, dataRepositoryPath="models-of-somebody/releases/"),
        f"{LINK}: dataRepositoryPath: 'models-of-somebody/releases/' is not like s3://bucket/prefix/",
    ),
    Refusal(
        "an event that S3 does not tell",
        LINK,
        lambda w: _link(w, s3={"autoImportPolicy": {"events": ["NEW", "READ"]}}),
        f"{LINK}: s3.autoImportPolicy.events: READ: not among NEW, CHANGED, DELETED",
    ),
    Refusal(
        "a file system that does not exist",
        LINK,
        lambda w: _link(w, fileSystemId="fs-00000000"),
        "association of s3://models-of-somebody/releases/: file system fs-00000000 does not exist",
    ),
    Refusal(
        "a file system with backups",
        LINK,
        lambda w: _link(w, fileSystemId=w.id("saved")),
        "association of s3://models-of-somebody/releases/: file system {saved} has automatic backups, which FSx does not "
        "make of one that is linked to a bucket; set automaticBackupRetentionDays to 0",
    ),
    Refusal(
        "a key that FSx may not use",
        LINK,
        lambda w: _link(w, fileSystemPath="/closed", dataRepositoryPath="s3://closed-of-somebody/"),
        "association of s3://closed-of-somebody/: the policy of KMS key arn:aws:kms:us-west-2:123456789012:key/{closed-key} "
        "does not let AWSServiceRoleForFSxS3Access_fs-* decrypt; the association would be MISCONFIGURED",
    ),
    Refusal(
        "a folder within that of another link",
        LINK,
        lambda w: _link(w, fileSystemPath="/releases/old", dataRepositoryPath="s3://models-of-somebody/old/"),
        "association of s3://models-of-somebody/old/: fileSystemPath /releases/old overlaps /releases of another "
        "association",
    ),
    Refusal(
        "a prefix around that of another link",
        LINK,
        lambda w: _link(w, fileSystemPath="/all", dataRepositoryPath="s3://models-of-somebody/"),
        "association of s3://models-of-somebody/: dataRepositoryPath s3://models-of-somebody/ overlaps "
        "s3://models-of-somebody/releases/ of another association",
    ),
]
REFUSALS = [*FILE_SYSTEMS, *LINKS]


@pytest.mark.parametrize("refusal", REFUSALS, ids=ids(REFUSALS))
def test_it_is_refused_with_a_sentence(world: World, refusal: Refusal) -> None:
    check(world, refusal)


def test_a_bucket_that_does_not_exist_is_refused(world: World) -> None:
    with pytest.raises(HandlerError, match="none-of-this-name"):
        world.make(LINK, "bad", **_link(world, dataRepositoryPath="s3://none-of-this-name/"))


def test_what_was_made_is_read_back_and_grows_but_does_not_shrink(world: World) -> None:
    assert world.read("system") == world.made["system"].outputs
    assert world.read("link") == world.made["link"].outputs
    world.update("system", storageCapacity=4800, perUnitStorageThroughput=250, tags={"owner": "you"})
    seen = world.read("system")
    assert seen is not None
    assert (seen["storageCapacity"], seen["perUnitStorageThroughput"], seen["tags"]) == (4800, 250, {"owner": "you"})
    with pytest.raises(HandlerError, match=r"it has 4800 GiB and cannot become smaller \(2400 GiB\)"):
        world.update("system", storageCapacity=2400)
    with pytest.raises(InvalidInputs, match="storageCapacity: 3600"):
        world.update("system", storageCapacity=3600)


def test_its_group_cannot_go_before_it_and_its_links_go_with_it(world: World) -> None:
    short = world.make(FILE_SYSTEM, "short", **_system(world))
    world.make(LINK, "its-link", **_link(world, fileSystemId=short.id))
    with pytest.raises(HandlerError, match=f"in use by .*{short.outputs['networkInterfaceIds'][0]}"):
        world.delete("open")
    world.delete("short")
    world.delete("short")
    assert world.read("short") is None
    assert world.read("its-link") is None
    world.delete("its-link")
