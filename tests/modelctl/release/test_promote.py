"""A release moves to the next environment: the same objects, only after the previous environment had it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from modelctl.release import promote as command
from modelctl.release.catalog import UnknownRelease
from modelctl.release.progress import Silent
from modelctl.store.bucket import Store, open_store
from modelctl.store.errors import StoreError
from modelctl.store.manifest import Manifest, ManifestError, ModelEntry, ObjectEntry
from spec.stack_names import stack_of_model_bucket
from tests.aws_environment import use_none_of_the_developers
from tests.command import run
from tests.paths import ROOT

CONTENT = {"m/config.pbtxt": b"name: 'm'", "m/1/model.py": b"x = 1\n" * 1000}


@pytest.fixture
def stores(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[tuple[Store, Store]]:
    """Yield the buckets of two environments; the first has a release."""
    use_none_of_the_developers(monkeypatch, tmp_path)
    with mock_aws():
        for bucket in ("dev-models", "staging-models"):
            boto3.client("s3").create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
        source, target = open_store("dev-models"), open_store("staging-models")
        source.write_manifest(release(source))
        yield source, target


def release(store: Store) -> Manifest:
    """Upload the objects of `CONTENT` without their manifest."""
    from datetime import UTC, datetime

    from modelctl.store.digest import digest

    digests = {key: digest(content, store.part_bytes) for key, content in CONTENT.items()}
    objects = {key: ObjectEntry(sha256=one.sha256, bytes=one.bytes) for key, one in digests.items()}
    manifest = Manifest.of(objects, {"m": ModelEntry(version=1, backend="python")}, datetime.now(UTC))
    for key, content in CONTENT.items():
        store.upload(manifest.id, key, content, digests[key], lambda _: None)
    return manifest


def copy(stores: tuple[Store, Store], release_id: str) -> command.Promoted:
    source, target = stores
    return command.copy_release(command.Promotion(release_id, target), source, Silent())


def test_the_next_environment_gets_the_same_objects_under_the_same_id(stores: tuple[Store, Store]) -> None:
    source, target = stores
    (release_id,) = source.release_ids()
    assert copy(stores, release_id) == command.Promoted(copied=2, found=0)
    assert target.manifest(release_id) == source.manifest(release_id)
    assert b"".join(target.chunks(release_id, "m/1/model.py")) == CONTENT["m/1/model.py"]
    assert copy(stores, release_id) == command.Promoted(copied=0, found=2)


def test_a_killed_promotion_goes_on_where_it_was(stores: tuple[Store, Store]) -> None:
    source, target = stores
    (release_id,) = source.release_ids()
    copy(stores, release_id)
    for key in ("manifest.json", "m/config.pbtxt"):
        target.client.delete_object(Bucket="staging-models", Key=f"releases/{release_id}/{key}")
    assert copy(stores, release_id) == command.Promoted(copied=1, found=1)
    assert target.manifest(release_id) is not None


def test_an_object_that_is_not_what_its_manifest_says_goes_nowhere(stores: tuple[Store, Store]) -> None:
    source, target = stores
    (release_id,) = source.release_ids()
    boto3.client("s3").put_object(Bucket="dev-models", Key=f"releases/{release_id}/m/1/model.py", Body=b"another one")
    with pytest.raises(ManifestError, match=r"m/1/model\.py of release .* is not what its manifest says"):
        copy(stores, release_id)
    assert target.manifest(release_id) is None


def test_an_unknown_release_is_named(stores: tuple[Store, Store]) -> None:
    with pytest.raises(UnknownRelease, match=r"there is no release 0{64} in s3://dev-models"):
        copy(stores, "0" * 64)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a repository whose dev pins the shipped release, and whose history has another one."""
    folder = tmp_path / "stacks"
    folder.mkdir()
    git(tmp_path, "init", "--quiet")
    for name in ("dev", "staging"):
        text = (ROOT / "stacks" / f"Pulumi.{name}.yaml").read_text(encoding="utf-8")
        before = re.sub(r'(?<=  id: ")[0-9a-f]{64}', "aaaaaaaaaaaa" + 52 * "0", text)
        (folder / f"Pulumi.{name}.yaml").write_text(before, encoding="utf-8")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "before")
    dev = folder / "Pulumi.dev.yaml"
    dev.write_text(
        dev.read_text(encoding="utf-8").replace("aaaaaaaaaaaa" + 52 * "0", "bbbbbbbbbbbb" + 52 * "0"), encoding="utf-8"
    )
    git(tmp_path, "commit", "--quiet", "--all", "--message", "after")
    return folder


def git(folder: Path, *arguments: str) -> None:
    settings = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *settings, *arguments], cwd=folder, check=True, capture_output=True, timeout=60)


@pytest.mark.parametrize("release_id", ["aaaaaaaaaaaa" + 52 * "0", "bbbbbbbbbbbb" + 52 * "0"])
def test_a_release_that_the_environment_before_has_or_had_may_come(checkout: Path, release_id: str) -> None:
    command.refuse_unknown(release_id, checkout / "Pulumi.staging.yaml", checkout / "Pulumi.dev.yaml")


def test_a_release_that_no_environment_had_is_refused(checkout: Path) -> None:
    assert command.pinned(checkout / "Pulumi.dev.yaml") == "bbbbbbbbbbbb" + 52 * "0"
    with pytest.raises(
        command.PromotionError, match=r"pins release c{12}0{52}, which .* has never pinned: pin it there first"
    ):
        command.refuse_unknown("cccccccccccc" + 52 * "0", checkout / "Pulumi.staging.yaml", checkout / "Pulumi.dev.yaml")


US, EU = "triton-models-prod-us-123456789012-us-west-2", "triton-models-prod-eu-123456789012-eu-central-1"


@pytest.fixture
def regions(stores: tuple[Store, Store], tmp_path: Path) -> Path:
    """Write stack files of dev and of two prods in two regions, which pin the first bucket's release, unsigned."""
    (release_id,) = stores[0].release_ids()
    for stack, like, region in (
        ("dev", "dev", "us-west-2"),
        ("prod-us", "prod", "us-west-2"),
        ("prod-eu", "prod", "eu-central-1"),
    ):
        text = (ROOT / "stacks" / f"Pulumi.{like}.yaml").read_text(encoding="utf-8").replace("us-west-2", region)
        text = re.sub(r"    signers:\n      - \|\n( {8}.+\n)+", "", text)
        (tmp_path / f"Pulumi.{stack}.yaml").write_text(
            re.sub(r'(?<=  id: ")[0-9a-f]{64}', release_id, text), encoding="utf-8"
        )
    for bucket, region in ((US, "us-west-2"), (EU, "eu-central-1")):
        boto3.client("s3").create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": region})
    return tmp_path


def promote(folder: Path, *arguments: str) -> tuple[int, str, str]:
    done = run("modelctl", "promote", *arguments, "--before", "dev", "--from", "dev-models", "--stacks", str(folder))
    return done.exit_code, done.stdout, done.stderr


def test_several_stacks_get_their_release_in_one_go_each_in_its_region(regions: Path, stores: tuple[Store, Store]) -> None:
    (release_id,) = stores[0].release_ids()
    code, told, _ = promote(regions, "prod-us", "prod-eu", "--bucket", US, "--bucket", EU)
    assert (code, told.splitlines()) == (
        0,
        [f"{release_id} is in s3://{bucket}: 2 objects copied from s3://dev-models, 0 found" for bucket in (US, EU)],
    )
    assert open_store(EU, region="eu-central-1").client.meta.region_name == "eu-central-1"
    assert open_store(EU, region="eu-central-1").manifest(release_id) == stores[0].manifest(release_id)


def test_the_bucket_before_is_the_one_that_its_stack_file_says(regions: Path, stores: tuple[Store, Store]) -> None:
    dev = regions / "Pulumi.dev.yaml"
    assert command.bucket_of(dev) == "triton-models-dev-123456789012-us-west-2"
    dev.write_text(re.sub("  aws:allowedAccountIds:.*\n", "", dev.read_text(encoding="utf-8")), encoding="utf-8")
    done = run("modelctl", "promote", "prod-us", "--before", "dev", "--bucket", US, "--stacks", str(regions))
    assert (done.exit_code, done.stderr) == (
        1,
        f"error: {dev} does not say in which account its bucket is: name one in aws:allowedAccountIds of that file, "
        "as deploy.yml needs it; by hand the bucket may be given instead (--bucket; promote: --from)\n",
    )


def test_all_mistakes_are_told_and_nothing_is_copied_where_there_is_one(regions: Path) -> None:
    dev = regions / "Pulumi.dev.yaml"
    eu = regions / "Pulumi.prod-eu.yaml"
    eu.write_text(
        re.sub(r'(?<=  id: ")[0-9a-f]{64}', "cccccccccccc" + 52 * "0", eu.read_text(encoding="utf-8")), encoding="utf-8"
    )
    code, told, errors = promote(regions, "prod-us", "prod-eu", "prod-us", "--bucket", EU, "--bucket", EU, "--bucket", US)
    assert (code, told) == (1, "")
    assert errors.splitlines() == [
        f"error: {EU} is the bucket of stack prod-eu, and not of prod-us; give that of prod-us",
        f"{eu} pins release cccccccccccc{52 * '0'}, which {dev} has never pinned: pin it there first (`modelctl pin`) and "
        "deploy that, so that both environments serve the same objects",
    ]
    assert open_store(US).release_ids() == []


def test_a_copy_that_fails_keeps_no_other_from_being_made_and_is_made_by_the_next_run(
    regions: Path, stores: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    (release_id,) = stores[0].release_ids()
    upload = Store.upload

    def refused_in_us(store: Store, *arguments: Any) -> None:
        if store.place.bucket == US:
            raise StoreError("no")
        upload(store, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "upload", refused_in_us)
        code, told, errors = promote(regions, "prod-us", "prod-eu", "--bucket", US, "--bucket", EU)
    assert code != 0 and "error: no" in errors and f"{release_id} is in s3://{EU}" in told
    assert open_store(US).manifest(release_id) is None
    code, told, _ = promote(regions, "prod-us", "prod-eu", "--bucket", US, "--bucket", EU)
    assert (code, told.splitlines()) == (
        0,
        [
            f"{release_id} is in s3://{US}: 2 objects copied from s3://dev-models, 0 found",
            f"{release_id} is in s3://{EU}: 0 objects copied from s3://dev-models, 2 found",
        ],
    )


def test_every_stack_has_a_bucket(regions: Path) -> None:
    assert promote(regions, "prod-us", "prod-eu", "--bucket", US) == (
        1,
        "",
        "error: 2 stacks need a bucket each, and --bucket is given 1 times; give it once for each stack, in their order\n",
    )


@pytest.mark.parametrize(
    ("bucket", "stack"),
    [
        (US, "prod-us"),
        ("triton-models-dev-123456789012-us-gov-west-1", "dev"),
        ("dev-models", None),
        ("triton-models-x", None),
    ],
)
def test_a_bucket_says_whose_it_is(bucket: str, stack: str | None) -> None:
    assert stack_of_model_bucket(bucket) == stack
